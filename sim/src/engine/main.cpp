// Harness of the compiled card: reads pin levels on stdin and writes GMII levels on stdout, both run-length
// encoded.
//
//   argv    tck_ps tx_period_ps straps stop_clock stop_ns [waves.vcd]
//           the DDR clock stops for stop_ns before its edge number stop_clock
//   stdin   records of two 32-bit words. The first: 3..0 cke, 7..4 cs_n, 8 act_n, 9 ras_n, 10 cas_n,
//           11 we_n, 15..12 ba, 31..16 a[15:0]. The second: 15..0 clocks, 17..16 a[17:16], 18 run.
//           Clocks = 0 requests a report.
//   stdout  32-bit words: 7..0 txd, 8 tx_en, 9 tx_er, 31..10 count of TX edges; a word with count 0
//           is a report: 0 run, and three more words: the DDR clocks so far, low word first, and
//           the most words the FIFO has held so far.
//
// Words are in the byte order of the machine. The order of edges is that of schedule.rs.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <unistd.h>

@FIFO@
#include "Vtop.h"
#ifdef FIFO_MASK
#include "Vtop___024root.h"
#endif
#include "verilated.h"
#if VM_TRACE
#include "verilated_vcd_c.h"
#endif

// Exits at once. Verilator's own vl_fatal flushes the waveforms first, which never returns if the waveforms
// are what cannot be written.
void vl_fatal(const char*, int, const char*, const char* message) {
    fprintf(stderr, "%s\n", message);
    _exit(4);
}

namespace {

constexpr int64_t TX_OFFSET_PS = @TX_OFFSET_PS@;
constexpr uint32_t MAX_COUNT = (1u << 22) - 1;

class Output {
  public:
    // The pipe for itself: whatever else prints, a Verilog $display say, goes to standard error.
    Output() : pipe_(fdopen(dup(STDOUT_FILENO), "wb")) {
        if (pipe_ == nullptr || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) exit(3);
        setvbuf(pipe_, nullptr, _IOFBF, 1 << 16);
    }

    void take(uint32_t levels) {
        if (levels != levels_ || count_ == MAX_COUNT) flush();
        levels_ = levels;
        ++count_;
    }

    void report(uint64_t clocks, uint32_t run, uint32_t fifo_peak) {
        flush();
        put(run);
        put(static_cast<uint32_t>(clocks));
        put(static_cast<uint32_t>(clocks >> 32));
        put(fifo_peak);
        if (fflush(pipe_) != 0) exit(3);
    }

  private:
    void flush() {
        if (count_ != 0) put(levels_ | count_ << 10);
        count_ = 0;
    }

    void put(uint32_t word) {
        if (fwrite(&word, sizeof word, 1, pipe_) != 1) exit(3);
    }

    FILE* pipe_;
    uint32_t levels_ = 0;
    uint32_t count_ = 0;
};

class Card {
  public:
    Card(int64_t tck_ps, int64_t tx_period_ps, uint16_t straps, const char* waves)
        : tck_ps_(tck_ps), tx_period_ps_(tx_period_ps) {
        top_->straps = straps;
        top_->ddr_clock = 0;
        top_->tx_clock = 0;
        drive(0xfff, 0);
#if VM_TRACE
        if (waves != nullptr) {
            Verilated::traceEverOn(true);
            top_->trace(&trace_, 99);
            trace_.set_time_unit("1ps");
            trace_.set_time_resolution("1ps");
            trace_.open(waves);
        }
#else
        (void)waves;
#endif
        top_->eval();
    }

    ~Card() {
#if VM_TRACE
        at(now_ + 1);
        trace_.close();
#endif
        top_->final();
    }

    void delay(int64_t ns) {
        ahead_ps_ -= ns * 1000;
    }

    void clock(uint32_t levels, uint32_t more, Output& output) {
        for (; ahead_ps_ < 0; ahead_ps_ += tx_period_ps_) tx_edge(output);
        ahead_ps_ -= tck_ps_;
        ddr_edge(levels, more);
        note_fifo();
    }

    uint32_t fifo_peak() const { return fifo_peak_; }

  private:
    // Reads the pointers of the FIFO's writer and reader, which cache.rs makes visible.
    void note_fifo() {
#ifdef FIFO_MASK
        const auto& card = *top_->rootp;
        const uint32_t used = (card.FIFO_COMMITTED - card.FIFO_FREED) & FIFO_MASK;
        if (used > fifo_peak_) fifo_peak_ = used;
#endif
    }

    // Verilator writes `$`, which stands between a bundle of ports and its signal, as `__024`.
    void drive(uint32_t levels, uint32_t more) {
        top_->pins__024cke = levels & 0xf;
        top_->pins__024cs_n = levels >> 4 & 0xf;
        top_->pins__024act_n = levels >> 8 & 1;
        top_->pins__024ras_n = levels >> 9 & 1;
        top_->pins__024cas_n = levels >> 10 & 1;
        top_->pins__024we_n = levels >> 11 & 1;
        top_->pins__024ba = levels >> 12 & 0xf;
        top_->pins__024a = levels >> 16 | (more >> 16 & 3) << 16;
        top_->run = more >> 18 & 1;
    }

    void tx_edge(Output& output) {
        fall(tx_ps_, top_->tx_clock, top_->ddr_clock);
        output.take(top_->gmii_txd | top_->gmii_tx_en << 8 | top_->gmii_tx_er << 9);
        top_->tx_clock = 1;
        top_->eval();
        tx_fall_ps_ = tx_ps_ + tx_period_ps_ / 2;
        tx_ps_ += tx_period_ps_;
    }

    void ddr_edge(uint32_t levels, uint32_t more) {
        fall(ddr_ps_, top_->ddr_clock, top_->tx_clock);
        drive(levels, more);
        top_->ddr_clock = 1;
        top_->eval();
        ddr_fall_ps_ = ddr_ps_ + tck_ps_ / 2;
        ddr_ps_ += tck_ps_;
    }

#if VM_TRACE
    static constexpr int64_t NEVER = INT64_MAX;

    // Puts falling edges in the middle of each period, so that waveforms are readable.
    void fall(int64_t rise_ps, uint8_t&, uint8_t&) {
        for (;;) {
            int64_t now = ddr_fall_ps_ < tx_fall_ps_ ? ddr_fall_ps_ : tx_fall_ps_;
            if (now > rise_ps) break;
            at(now);
            if (now == ddr_fall_ps_) {
                top_->ddr_clock = 0;
                ddr_fall_ps_ = NEVER;
            }
            if (now == tx_fall_ps_) {
                top_->tx_clock = 0;
                tx_fall_ps_ = NEVER;
            }
            top_->eval();
        }
        at(rise_ps);
    }

    // Advances the time. The levels of the time before are written, once for each point in time.
    void at(int64_t now) {
        if (now == now_) return;
        if (trace_.isOpen()) trace_.dump(static_cast<uint64_t>(now_));
        now_ = now;
    }

    int64_t now_ = 0;
    VerilatedVcdC trace_;
#else
    static constexpr int64_t NEVER = 0;

    // No logic reacts to falling edges. So the other clock falls together with this one's rise, and an extra
    // evaluation is needed only where one clock rises twice in a row.
    void fall(int64_t, uint8_t& own, uint8_t& other) {
        if (own) {
            own = 0;
            top_->eval();
        }
        other = 0;
    }

#endif

    std::unique_ptr<Vtop> top_{new Vtop};
    int64_t tck_ps_;
    int64_t tx_period_ps_;
    uint32_t fifo_peak_ = 0;
    int64_t ahead_ps_ = TX_OFFSET_PS;
    int64_t ddr_ps_ = 0;
    int64_t tx_ps_ = TX_OFFSET_PS;
    int64_t ddr_fall_ps_ = NEVER;
    int64_t tx_fall_ps_ = NEVER;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc < 6) return 2;
    setvbuf(stdin, nullptr, _IOFBF, 1 << 16);
    Output output;
    Card card(atoll(argv[1]), atoll(argv[2]), static_cast<uint16_t>(atoi(argv[3])),
              argc > 6 ? argv[6] : nullptr);
    const uint64_t stop_clock = strtoull(argv[4], nullptr, 10);
    const int64_t stop_ns = atoll(argv[5]);
    uint64_t clocks = 0;
    uint32_t run = 0;
    uint32_t record[2];
    while (fread(record, sizeof record, 1, stdin) == 1) {
        const uint32_t count = record[1] & 0xffff;
        if (count == 0) {
            output.report(clocks, run, card.fifo_peak());
            continue;
        }
        run = record[1] >> 18 & 1;
        for (uint32_t left = count; left != 0; --left) {
            if (clocks++ == stop_clock) card.delay(stop_ns);
            card.clock(record[0], record[1], output);
        }
    }
    output.report(clocks, run, card.fifo_peak());
    return 0;
}
