-- Faults and other events of each board, with the first and the last time at which they arrived.
SELECT run, board, event, count(*) AS events, min(arrival) AS first_arrival, max(arrival) AS last_arrival
FROM events
GROUP BY run, board, event
ORDER BY run, board, event;
