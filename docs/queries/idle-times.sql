-- How long boards are idle between accesses: distances of clocks in ranges between powers of two.
WITH distances AS (
    SELECT board, clock - lag(clock) OVER (PARTITION BY capture, session ORDER BY clock) AS clocks
    FROM accesses
)
SELECT board, CASE WHEN clocks > 0 THEN CAST(floor(log2(clocks)) AS BIGINT) ELSE -1 END AS log2_clocks,
       count(*) AS distances, sum(clocks) AS clocks
FROM distances
WHERE clocks IS NOT NULL
GROUP BY 1, 2
ORDER BY 1, 2;
