-- Of each bank: accesses to the row of the bank's last access, and to another row. The latter are row conflicts, or misses
-- if the bank was closed in between. As `hmtt rows`, but gaps are not regarded.
WITH places AS (
    SELECT board, capture, session, clock, bank(address) AS bank, row(address) AS bank_row
    FROM accesses
),
pairs AS (
    SELECT board, bank, bank_row,
           lag(bank_row) OVER (PARTITION BY capture, session, bank ORDER BY clock) AS last_row
    FROM places
)
SELECT board, bank, count(*) AS accesses,
       count(*) FILTER (WHERE bank_row = last_row) AS same_row_accesses,
       count(*) FILTER (WHERE bank_row <> last_row) AS other_row_accesses,
       count(*) FILTER (WHERE last_row IS NULL) AS first_accesses
FROM pairs
GROUP BY board, bank
ORDER BY board, bank;
