-- The share of accesses that the kernel made, by its marks: 96 where it is entered, 97 where it is left. Before the first
-- mark of a session, who made them is not known.
WITH moments AS (
    SELECT run, board, capture, session, clock, NULL AS register FROM accesses
    UNION ALL
    SELECT run, board, capture, session, clock, register FROM tags WHERE register IN (96, 97)
),
stretches AS (
    SELECT run, board, capture, session, clock, register,
           count(register) OVER (PARTITION BY capture, session ORDER BY clock, register
                                 ROWS UNBOUNDED PRECEDING) AS stretch
    FROM moments
),
counts AS (
    SELECT run, board, capture, session, stretch, max(register) AS register,
           count(*) - count(register) AS accesses
    FROM stretches
    GROUP BY run, board, capture, session, stretch
)
SELECT run, board, sum(accesses) AS accesses,
       sum(CASE WHEN register = 96 THEN accesses ELSE 0 END) AS kernel_accesses,
       sum(CASE WHEN register IS NULL THEN accesses ELSE 0 END) AS not_known,
       100.0e0 * sum(CASE WHEN register = 96 THEN accesses ELSE 0 END)
           / nullif(sum(CASE WHEN register IS NULL THEN 0 ELSE accesses END), 0) AS kernel_percent
FROM counts
GROUP BY run, board
ORDER BY run, board;
