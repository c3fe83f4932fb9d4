package experiment

import (
	"math"
	"slices"
	"time"
)

// Result is what an experiment measured, and the JSON that weft-bench run --json
// prints.
type Result struct {
	Experiment string             `json:"experiment"`
	Device     string             `json:"device"` // name of the device measured
	Limits     map[string]float64 `json:"limits"` // by name, in op/s, B/s or launch/s
	Rows       []Row              `json:"rows"`

	Title      string         `json:"title"`
	Date       time.Time      `json:"date"` // UTC
	Version    string         `json:"weft_version"`
	Scale      string         `json:"scale"`
	Hardware   Hardware       `json:"hardware"`
	Parameters map[string]any `json:"parameters"`
	Published  []Published    `json:"published,omitempty"`
	// Incomplete says that the experiment was interrupted: rows are missing, or what compares them.
	Incomplete bool `json:"incomplete,omitempty"`
	// Simulated says that no device has run this: there are counts, and no rates.
	Simulated bool `json:"simulated,omitempty"`

	Plots []Plot `json:"-"` // made from the rows
}

// Row is one figure.
type Row struct {
	Structure string  `json:"structure"` // what was measured: "linear", "linear-set", a peer
	Op        string  `json:"op"`
	KeyBits   int     `json:"key_bits"`
	ValueBits int     `json:"value_bits"` // 0: no values
	N         int     `json:"n"`          // operations timed
	Load      float64 `json:"load"`       // share of slots, or of bytes, used; see the experiment for when
	OpsPerS   float64 `json:"ops_per_s"`
	// LimitShare is OpsPerS divided by the limit named Limit.
	LimitShare float64 `json:"limit_share"`
	Limit      string  `json:"limit,omitempty"`
	Unit       string  `json:"unit,omitempty"` // of OpsPerS, if not op/s
	Seconds    float64 `json:"seconds,omitempty"`
	Cores      int     `json:"cores,omitempty"`   // used, where the experiment varies them
	Buckets    int     `json:"buckets,omitempty"` // of a hash table, where the experiment varies them
	Units      int     `json:"units,omitempty"`   // of an allocator, free or not

	// BusyOpsPerS is the rate behind other work on the device: submitting takes none of it.
	BusyOpsPerS *float64 `json:"busy_ops_per_s,omitempty"`

	HitRatio      *float64 `json:"hit_ratio,omitempty"`
	BytesPerEntry *float64 `json:"bytes_per_entry,omitempty"`
	MeanProbe     *float64 `json:"mean_probe,omitempty"` // slots from home
	MaxProbe      *float64 `json:"max_probe,omitempty"`
	// Batch is how many operations a call brings, where the experiment varies them, and Latency
	// how long calls take.
	Batch   int      `json:"batch,omitempty"`
	Latency *Latency `json:"latency,omitempty"`
	// Spread is the rates of the slowest and the fastest call, where OpsPerS is that of the median.
	Spread *Spread `json:"spread,omitempty"`
	// Runs is how long each run took, in seconds and in their order, where OpsPerS is that of the median.
	Runs []float64 `json:"runs_seconds,omitempty"`
	// Targets are what the row is to reach.
	Targets []Target `json:"targets,omitempty"`
	// Parts are what the median call spends its time on.
	Parts []Part `json:"parts,omitempty"`
	// Cache is the share of the buckets that a GPU has in its memory, where the experiment
	// varies it.
	Cache *float64 `json:"cache,omitempty"`
	// Keys of the table, and exponent of a Zipf distribution, where the experiment varies them.
	Keys  int     `json:"keys,omitempty"`
	Theta float64 `json:"theta,omitempty"`
	// Samples are one figure per batch, in their order; the experiment says of what.
	Samples []float64 `json:"samples,omitempty"`

	// Slots of a bucket, and Bytes of the table, where the experiment varies them.
	Slots      int `json:"slots,omitempty"`
	TableBytes int `json:"table_bytes,omitempty"`
	// Measured is what a table of buckets tells of itself, and Model what theory says.
	Measured *Reads `json:"measured,omitempty"`
	Model    *Reads `json:"model,omitempty"`
	// BytesPerOp is what a lookup moves to and from the memory of the device: computed from
	// the buckets that it reads, not counted by the device.
	BytesPerOp *float64 `json:"bytes_per_op_computed,omitempty"`
	// Requested is what the same lookups request of such a table on a simulated GPU.
	Requested *Requested `json:"requested_simulated,omitempty"`
	// KeysPerBucket is how many buckets are the primary one of 0, 1, 2, … keys.
	KeysPerBucket []int `json:"keys_per_bucket,omitempty"`

	// Graph is what graph was measured.
	Graph *GraphShape `json:"graph,omitempty"`

	// Reason is why there is no figure: the structure does not run on the device.
	Reason string `json:"reason,omitempty"`

	// Speedup is the rate relative to the experiment's peer in the same run.
	Speedup *float64 `json:"speedup,omitempty"`
	// What a paper published for the same measurement on its own hardware.
	PublishedMeanProbe *float64 `json:"published_mean_probe,omitempty"`
	PublishedMaxProbe  *float64 `json:"published_max_probe,omitempty"`
	PublishedOpsPerS   *float64 `json:"published_ops_per_s,omitempty"`
}

// Latency is how long calls take, in seconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// sample takes the runs whose median the row has the rate of, if they are among some, by their medians.
func (row *Row) sample(timings map[float64][]time.Duration) {
	seconds := row.Seconds
	if seconds == 0 && row.OpsPerS > 0 {
		seconds = float64(row.N) / row.OpsPerS
	}
	for median, times := range timings {
		if row.Runs != nil || math.Abs(median-seconds) > 1e-12+1e-9*median {
			continue
		}
		for _, t := range times {
			row.Runs = append(row.Runs, t.Seconds())
		}
		if row.Spread == nil && len(times) > 1 {
			work := row.OpsPerS * median
			row.Spread = &Spread{Slowest: work / slices.Max(times).Seconds(), Fastest: work / slices.Min(times).Seconds()}
		}
	}
}

// Untime leaves out what a simulated device has only because the host took some time: counts are as on hardware,
// rates are not.
func (r *Result) Untime() {
	r.Simulated, r.Limits, r.Plots = true, map[string]float64{}, nil
	for i := range r.Rows {
		row := &r.Rows[i]
		row.OpsPerS, row.LimitShare, row.Seconds, row.Limit, row.Unit = 0, 0, 0, "", ""
		row.BusyOpsPerS, row.Latency, row.Spread, row.Targets, row.Parts, row.Speedup, row.Runs = nil, nil, nil, nil, nil, nil, nil
	}
}

// Spread is rates of calls, in operations per second.
type Spread struct {
	Slowest float64 `json:"slowest"`
	Fastest float64 `json:"fastest"`
}

// Target is a figure that a row is to reach: a rate, how many times that of another row, or a time that
// it is to stay below.
type Target struct {
	Is      float64 `json:"is"`
	Want    float64 `json:"want"`
	Unit    string  `json:"unit"`         // "op/s", "x" or "s"
	Of      string  `json:"of,omitempty"` // structure of the other row
	Reached bool    `json:"reached"`
}

// Part is a part of a latency.
type Part struct {
	What    string  `json:"what"`
	Seconds float64 `json:"seconds"`
}

// Reads are averages over a table of buckets.
type Reads struct {
	PerHit    float64 `json:"buckets_per_hit,omitempty"`    // that a lookup reads of a key which is there
	PerMiss   float64 `json:"buckets_per_miss,omitempty"`   // of one that is not
	PerInsert float64 `json:"buckets_per_insert,omitempty"` // that an insertion reads
	TypeB     float64 `json:"type_b,omitempty"`             // share of buckets with remap entries
	Overhead  float64 `json:"overhead,omitempty"`           // share of slots that hold remap entries
	Entries   float64 `json:"entries,omitempty"`            // remap entries set, per bucket
}

// Published is a figure that a paper prints, measured on its own hardware.
type Published struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"` // "op/s", "x" for a ratio, "load", or "buckets" for what a lookup reads
}

// Plot is a picture of rows.
type Plot struct {
	Name           string // part of a file name
	Title          string
	XLabel, YLabel string
	LogX, LogY     bool
	YMin           float64 // the least that y can be
	Series         []Series
}

// Series is one line of a plot.
type Series struct {
	Name string
	X, Y []float64
	// Published marks figures from the literature, measured elsewhere.
	Published bool
	// Limit marks a limit of the hardware rather than a measurement of weft.
	Limit bool
	// Model marks what theory says of the series before.
	Model bool
}

// figure makes a value of an optional field.
func figure(x float64) *float64 { return &x }
