-- Accesses and bytes of each board in each second of the receiver's time.
WITH counts AS (
    SELECT capture, session, board, date_trunc('second', arrival) AS second, count(*) AS accesses
    FROM accesses
    GROUP BY capture, session, board, date_trunc('second', arrival)
)
SELECT counts.board, counts.second, sum(counts.accesses) AS accesses,
       sum(counts.accesses * runs.unit_bytes) AS bytes
FROM counts JOIN runs ON counts.capture = runs.capture AND counts.session = runs.session
GROUP BY counts.board, counts.second
ORDER BY counts.board, counts.second;
