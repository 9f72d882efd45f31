-- Accesses of each function of a program, by the tags on the bus (--map) or in a log (--log). Null: before the first tag.
SELECT function_at(clock, capture, session) AS function, count(*) AS accesses,
       count(*) FILTER (WHERE is_write) AS writes, count(DISTINCT page) AS pages
FROM accesses
GROUP BY function_at(clock, capture, session)
ORDER BY accesses DESC, function;
