-- Losses by board and cause: on the card, between the card and the receiver, or in malformed frames.
SELECT run, board,
       CASE WHEN malformed_frames > 0 THEN 'malformed frames'
            WHEN missing_frames > 0 THEN 'missing frames'
            WHEN card_lost_records > 0 THEN 'lost by the card'
            ELSE 'not known' END AS cause,
       count(*) AS gaps, sum(lost_accesses) AS lost_accesses, sum(missing_frames) AS missing_frames,
       sum(card_lost_records) AS card_lost_records, count(*) - count(lost_accesses) AS gaps_without_count
FROM gaps
WHERE is_loss
GROUP BY 1, 2, 3
ORDER BY 1, 2, 3;
