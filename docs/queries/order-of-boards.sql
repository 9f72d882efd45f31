-- Which board accessed a page first, and whether that is known: the times of two boards have errors (runs.error_ns), and the
-- order of events that are nearer than both errors is not known.
WITH firsts AS (
    SELECT run, board, capture, session, page, min(clock) AS clock
    FROM accesses
    WHERE page < 16384 -- the first 64 MiB
    GROUP BY run, board, capture, session, page
),
times AS (
    SELECT firsts.run, firsts.board, firsts.page, runs.error_ns,
           runs.zero_time_ns + CAST(round(firsts.clock * runs.clock_ns) AS BIGINT) AS time_ns
    FROM firsts JOIN runs ON firsts.capture = runs.capture AND firsts.session = runs.session
    WHERE runs.error_ns IS NOT NULL
),
pairs AS (
    SELECT run, page, board, time_ns, error_ns,
           lag(board) OVER (PARTITION BY run, page ORDER BY time_ns, board) AS before_board,
           lag(time_ns) OVER (PARTITION BY run, page ORDER BY time_ns, board) AS before_time_ns,
           lag(error_ns) OVER (PARTITION BY run, page ORDER BY time_ns, board) AS before_error_ns
    FROM times
)
SELECT run, before_board, board, count(*) AS pages,
       sum(CASE WHEN time_ns - before_time_ns > error_ns + before_error_ns THEN 1 ELSE 0 END) AS known_order,
       sum(CASE WHEN time_ns - before_time_ns > error_ns + before_error_ns THEN 0 ELSE 1 END) AS unknown_order
FROM pairs
WHERE before_board IS NOT NULL AND before_board <> board
GROUP BY run, before_board, board
ORDER BY run, before_board, board;
