-- The pages written most in one second of one board. Other hours, boards and row groups are not read.
SELECT page, count(*) AS writes
FROM accesses
WHERE board = 'eth1' AND is_write
  AND arrival >= '2023-11-14T22:59:59Z' AND arrival < '2023-11-14T23:00:00Z'
GROUP BY page
ORDER BY writes DESC, page
LIMIT 10;
