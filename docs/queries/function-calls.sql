-- Calls of each function of each process, by the time in the functions themselves. What the logs have lost is in `threads`.
SELECT run, board, function, count(*) AS calls, sum(self_ns) AS self_ns, max(inclusive_ns) AS longest_ns,
       max(depth) AS greatest_depth, count(*) FILTER (WHERE exit <> 'returned') AS without_exit
FROM calls
GROUP BY run, board, function
ORDER BY self_ns DESC, run, board, function;
