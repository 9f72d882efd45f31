//! Formats a snapshot and the statistics in Prometheus' text format.
//!
//! Names follow the conventions of Prometheus: counters end in `_total`, units are base units. A
//! count that is not known is omitted; it is not reported as 0.

use prometheus::TextEncoder;
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

use crate::online::activity::Activity;
use crate::receive::{Link, Snapshot};

/// Metrics with one value for each interface: name, help, value.
type ByLink = (&'static str, &'static str, fn(&Link) -> Option<u64>);

const BY_LINK: &[ByLink] = &[
    ("captured_frames", "Frames captured, foreign ones included.", |link| {
        Some(link.captured_frames)
    }),
    ("frames", "Frames of a card.", |link| Some(link.counts.frames)),
    ("frame_bytes", "Bytes of the frames of a card, without FCS.", |link| {
        Some(link.counts.frame_bytes)
    }),
    ("records", "Records decoded.", |link| Some(link.counts.records)),
    ("accesses", "Memory accesses those records stand for.", |link| Some(link.counts.accesses)),
    ("reads", "READs among the accesses.", |link| Some(link.counts.reads)),
    ("writes", "WRITEs among the accesses.", |link| Some(link.counts.writes)),
    ("access_bytes", "Bytes of the lines and bursts accessed.", |link| {
        Some(link.counts.access_bytes)
    }),
    ("lost_accesses", "Accesses missing in the trace, whatever the reason.", |link| {
        Some(link.counts.lost_accesses)
    }),
    ("card_lost_records", "Records dropped on the card.", |link| {
        Some(link.counts.card_lost_records)
    }),
    ("wire_lost_frames", "Frames missing between the card and the kernel.", |link| {
        Some(link.wire_lost_frames)
    }),
    ("kernel_dropped_frames", "Frames dropped by the kernel.", |link| {
        link.statistics.kernel_dropped_frames
    }),
    ("interface_dropped_frames", "Frames dropped by the interface.", |link| {
        link.statistics.interface_dropped_frames
    }),
    ("malformed_frames", "Frames of a card that could not be read to their end.", |link| {
        Some(link.counts.malformed_frames)
    }),
    ("duplicate_frames", "Copies of frames, left out.", |link| {
        Some(link.counts.order.duplicate_frames)
    }),
    ("reordered_frames", "Frames that came after a later one.", |link| {
        Some(link.counts.order.reordered_frames)
    }),
    ("foreign_frames", "Frames that no card sent, strays included.", |link| {
        Some(link.counts.foreign_frames)
    }),
    ("stray_frames", "Frames like a card's that go on from no card.", |link| {
        Some(link.counts.stray_frames)
    }),
    ("restarts", "Times the card started to count anew.", |link| Some(link.counts.order.restarts)),
    ("ddr_clock_losses", "Times the card lost its DDR clock.", |link| {
        Some(link.counts.ddr_clock_losses)
    }),
];

/// Formats the metrics of one snapshot.
pub fn text(snapshot: &Snapshot, activity: &Activity) -> String {
    let mut families: Vec<MetricFamily> = BY_LINK
        .iter()
        .map(|(name, help, value)| {
            let metrics = snapshot.links.iter().filter_map(|link| {
                Some(counter(value(link)?, &[("interface", link.interface.clone())]))
            });
            family(&format!("{name}_total"), help, MetricType::COUNTER, metrics.collect())
        })
        .collect();
    families.push(interfaces_up(snapshot));
    families.extend(statistics_families(snapshot, activity));
    families.extend(receiver_families(snapshot));
    families.retain(|family| !family.get_metric().is_empty());
    // The encoder rejects only families without a name or metrics, and there are none.
    TextEncoder::new().encode_to_string(&families).unwrap_or_default()
}

/// Formats the counts of connections to the metrics, by result.
pub(super) fn format_connections(counts: &[(&str, u64)]) -> String {
    let metrics =
        counts.iter().map(|(result, count)| counter(*count, &[("result", (*result).to_owned())]));
    let help = "Connections to these metrics that have ended.";
    let family = family("metrics_connections_total", help, MetricType::COUNTER, metrics.collect());
    TextEncoder::new().encode_to_string(&[family]).unwrap_or_default()
}

fn interfaces_up(snapshot: &Snapshot) -> MetricFamily {
    let up = snapshot.links.iter().map(|link| {
        let up = if link.failed.is_none() && !link.is_down { 1.0 } else { 0.0 };
        gauge(up, &[("interface", link.interface.clone())])
    });
    let help =
        "Whether frames are captured there: 0 while the interface is down, and once it failed.";
    family("interface_up", help, MetricType::GAUGE, up.collect())
}

fn statistics_families(snapshot: &Snapshot, activity: &Activity) -> Vec<MetricFamily> {
    let total = &activity.total;
    let direction = |name: &str, count| counter(count, &[("direction", name.to_owned())]);
    let interface = |link: usize| {
        snapshot.links.get(link).map(|link| link.interface.clone()).unwrap_or_default()
    };
    let by_bank = |value: fn(&crate::online::BankUse) -> u64| {
        let banks = activity.banks.iter().map(|bank| {
            let labels = [
                ("interface", interface(bank.link)),
                ("rank", bank.rank.to_string()),
                ("bank", bank.bank.to_string()),
            ];
            counter(value(bank), &labels)
        });
        banks.collect()
    };
    let counter_family = |name, help, metrics| family(name, help, MetricType::COUNTER, metrics);
    vec![
        counter_family(
            "statistics_accesses_total",
            "Accesses the statistics saw.",
            vec![direction("read", total.reads), direction("write", total.writes)],
        ),
        counter_family(
            "skipped_frames_total",
            "Captured frames the statistics left out because they lagged.",
            vec![counter(snapshot.skipped_frames, &[])],
        ),
        counter_family(
            "pages_total",
            "Different pages of 4 KiB the statistics saw.",
            vec![counter(total.pages, &[])],
        ),
        counter_family(
            "bank_accesses_total",
            "Accesses the statistics saw in a bank.",
            by_bank(|bank| bank.total.accesses),
        ),
        counter_family(
            "bank_row_hits_total",
            "Accesses to the row accessed last in the bank.",
            by_bank(|bank| bank.total.row_hits),
        ),
    ]
}

fn receiver_families(snapshot: &Snapshot) -> Vec<MetricFamily> {
    let (waiting, capacity) = snapshot.queue;
    let gauge_family =
        |name, help, value| family(name, help, MetricType::GAUGE, vec![gauge(value, &[])]);
    vec![
        family(
            "written_bytes_total",
            "Bytes written to all files.",
            MetricType::COUNTER,
            vec![counter(snapshot.written_bytes, &[])],
        ),
        family(
            "unwritten_frames_total",
            "Captured frames that could not be written.",
            MetricType::COUNTER,
            vec![counter(snapshot.unwritten_frames, &[])],
        ),
        gauge_family(
            "queue_batches",
            "Batches of about 1 MiB that wait to be written.",
            waiting as f64,
        ),
        gauge_family(
            "queue_batches_limit",
            "Batches that may wait to be written.",
            capacity as f64,
        ),
        gauge_family(
            "elapsed_seconds",
            "Time since the capture began.",
            snapshot.elapsed.as_secs_f64(),
        ),
    ]
}

fn family(name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(format!("hmtt_{name}"));
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

fn counter(value: u64, labels: &[(&str, String)]) -> Metric {
    let mut metric = Metric::from_label(pairs(labels));
    let mut counter = Counter::default();
    counter.set_value(value as f64);
    metric.set_counter(counter);
    metric
}

fn gauge(value: f64, labels: &[(&str, String)]) -> Metric {
    let mut metric = Metric::from_label(pairs(labels));
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    metric.set_gauge(gauge);
    metric
}

fn pairs(labels: &[(&str, String)]) -> Vec<LabelPair> {
    let pair = |(name, value): &(&str, String)| {
        let mut label = LabelPair::default();
        label.set_name((*name).to_owned());
        label.set_value(value.clone());
        label
    };
    labels.iter().map(pair).collect()
}
