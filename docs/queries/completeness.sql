-- What each board has of each run: sessions, accesses that arrived and that were lost, and the part that arrived.
WITH cards AS (
    SELECT DISTINCT run, board, capture, card, accesses, lost_accesses, gap_count, is_cut FROM runs
)
SELECT run, board, count(*) AS captures, sum(accesses) AS accesses, sum(lost_accesses) AS lost_accesses,
       sum(gap_count) AS gaps, max(CASE WHEN is_cut THEN 1 ELSE 0 END) AS has_cut_capture,
       100.0e0 * sum(accesses) / nullif(sum(accesses) + sum(lost_accesses), 0) AS percent
FROM cards
GROUP BY run, board
ORDER BY run, board;
