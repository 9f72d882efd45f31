-- Distinct pages that each board accesses in each second, and the share of writes.
SELECT board, date_trunc('second', arrival) AS second, count(DISTINCT page) AS pages, count(*) AS accesses,
       100.0e0 * count(*) FILTER (WHERE is_write) / count(*) AS write_percent
FROM accesses
GROUP BY board, date_trunc('second', arrival)
ORDER BY board, second;
