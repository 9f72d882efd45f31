-- The pages of all boards with most accesses. Pages of different boards are different pages.
SELECT board, page, count(*) AS accesses, count(*) FILTER (WHERE is_write) AS writes
FROM accesses
GROUP BY board, page
ORDER BY accesses DESC, board, page
LIMIT 20;
