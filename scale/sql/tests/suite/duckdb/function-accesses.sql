-- The functions of the tests' tags (functions.rs): entry and exit of `outer` at the offsets 0 and 64, of `inner`, which
-- `outer` calls, at 128 and 192. After a loss no function is open.
WITH moments AS (
    SELECT capture, session, clock, "offset" AS tag FROM tags WHERE "offset" IS NOT NULL AND is_write
    UNION ALL
    SELECT capture, session, coalesce(after_clock, 0) + 1, -1 FROM gaps WHERE is_loss
),
-- The last entry or exit of `outer`, or loss: whether `outer` is open.
marked AS (
    SELECT *, CASE WHEN tag IN (128, 192) THEN NULL ELSE tag END AS of_outer FROM moments
),
opened AS (
    SELECT capture, session, clock, tag,
           last_value(of_outer IGNORE NULLS) OVER (PARTITION BY capture, session ORDER BY clock
                                                   ROWS UNBOUNDED PRECEDING) AS last_outer
    FROM marked
),
changes AS (
    SELECT capture, session, clock,
           CASE WHEN tag = 128 THEN 'inner'
                WHEN tag = 192 AND last_outer = 0 THEN 'outer'
                WHEN tag = 0 THEN 'outer'
                ELSE '(no function)' END AS function
    FROM opened
)
SELECT changes.function AS function, count(*) AS accesses, count(*) FILTER (WHERE is_write) AS writes,
       count(DISTINCT page) AS pages
FROM accesses ASOF LEFT JOIN changes
  ON accesses.capture = changes.capture AND accesses.session = changes.session AND accesses.clock >= changes.clock
GROUP BY changes.function
ORDER BY accesses DESC, function;
