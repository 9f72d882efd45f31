-- The pages written most in one second of one board. Other hours, boards and row groups are not read.
SELECT page, count(*) AS writes
FROM accesses
WHERE board = 'eth1' AND is_write
  AND arrival >= TIMESTAMPTZ '2023-11-14 22:59:59+00' AND arrival < TIMESTAMPTZ '2023-11-14 23:00:00+00'
GROUP BY page
ORDER BY writes DESC, page
LIMIT 10;
