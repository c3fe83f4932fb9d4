package experiment

import (
	"math"
	"slices"
	"time"
)

// Result is the result of an experiment. Command weft-bench run --json prints it as JSON.
type Result struct {
	Experiment string             `json:"experiment"`
	Device     string             `json:"device"` // name of the measured device
	Limits     map[string]float64 `json:"limits"` // limits by name, in op/s, B/s or launch/s
	Rows       []Row              `json:"rows"`

	Title      string         `json:"title"`
	Date       time.Time      `json:"date"` // in UTC
	Version    string         `json:"weft_version"`
	Scale      string         `json:"scale"`
	Hardware   Hardware       `json:"hardware"`
	Parameters map[string]any `json:"parameters"`
	Published  []Published    `json:"published,omitempty"`
	// Incomplete means that the experiment was interrupted, so that rows or comparisons are
	// missing.
	Incomplete bool `json:"incomplete,omitempty"`
	// Simulated means that a simulated GPU ran the experiment. Such a result has counts but no
	// rates.
	Simulated bool `json:"simulated,omitempty"`

	Plots []Plot `json:"-"` // computed from the rows
}

// Row is one measurement.
type Row struct {
	// structure or peer measured, such as "linear" or "linear-set"
	Structure string `json:"structure"`
	Op        string `json:"op"`
	KeyBits   int    `json:"key_bits"`
	ValueBits int    `json:"value_bits"` // 0 if there are no values
	N         int    `json:"n"`          // number of timed operations
	// Load is the share of slots, or of bytes, in use. The experiment's text says at which time.
	Load    float64 `json:"load"`
	OpsPerS float64 `json:"ops_per_s"`
	// LimitShare is OpsPerS divided by the limit that Limit names.
	LimitShare float64 `json:"limit_share"`
	Limit      string  `json:"limit,omitempty"`
	Unit       string  `json:"unit,omitempty"` // unit of OpsPerS if other than op/s
	Seconds    float64 `json:"seconds,omitempty"`
	Cores      int     `json:"cores,omitempty"` // cores in use, if the experiment varies them
	// buckets of a hash table, if the experiment varies them
	Buckets int `json:"buckets,omitempty"`
	Units   int `json:"units,omitempty"` // units of an allocator, free or not

	// BusyOpsPerS is the rate when other work keeps the device busy first, which hides the time of
	// submitting.
	BusyOpsPerS *float64 `json:"busy_ops_per_s,omitempty"`

	HitRatio      *float64 `json:"hit_ratio,omitempty"`
	BytesPerEntry *float64 `json:"bytes_per_entry,omitempty"`
	MeanProbe     *float64 `json:"mean_probe,omitempty"` // in slots from the home slot
	MaxProbe      *float64 `json:"max_probe,omitempty"`
	// Batch is the number of operations per call, if the experiment varies it. Latency is the time
	// of calls.
	Batch   int      `json:"batch,omitempty"`
	Latency *Latency `json:"latency,omitempty"`
	// Spread is the rates of the slowest and the fastest call. OpsPerS is the rate of the median
	// call.
	Spread *Spread `json:"spread,omitempty"`
	// Runs is the time of each run in seconds, in order. OpsPerS is the rate of the median run.
	Runs []float64 `json:"runs_seconds,omitempty"`
	// Targets are the targets of the row.
	Targets []Target `json:"targets,omitempty"`
	// Parts are the parts of the median call's time.
	Parts []Part `json:"parts,omitempty"`
	// Cache is the share of the buckets in the memory of a GPU, if the experiment varies it.
	Cache *float64 `json:"cache,omitempty"`
	// Keys is the number of keys in the table, and Theta the exponent of a Zipf distribution, if
	// the experiment varies them.
	Keys  int     `json:"keys,omitempty"`
	Theta float64 `json:"theta,omitempty"`
	// Samples has one figure per batch, in order. The experiment's text says what they mean.
	Samples []float64 `json:"samples,omitempty"`

	// Slots is the number of slots per bucket, and TableBytes the size of the table, if the
	// experiment varies them.
	Slots      int `json:"slots,omitempty"`
	TableBytes int `json:"table_bytes,omitempty"`
	// Measured is the statistics of a table of buckets, and Model their theoretical values.
	Measured *Reads `json:"measured,omitempty"`
	Model    *Reads `json:"model,omitempty"`
	// BytesPerOp is the memory traffic of a lookup. It is computed from the number of buckets read,
	// not counted by the device.
	BytesPerOp *float64 `json:"bytes_per_op_computed,omitempty"`
	// Requested is the number of memory requests when a simulated GPU runs the same lookups on the
	// same table.
	Requested *Requested `json:"requested_simulated,omitempty"`
	// KeysPerBucket is a histogram: element i is the number of buckets that are the primary bucket
	// of i keys.
	KeysPerBucket []int `json:"keys_per_bucket,omitempty"`

	// Graph describes the measured graph.
	Graph *GraphShape `json:"graph,omitempty"`

	// Reason explains why the row has no figure, for example because the structure does not run on
	// the device.
	Reason string `json:"reason,omitempty"`

	// Speedup is the rate relative to the experiment's peer in the same run.
	Speedup *float64 `json:"speedup,omitempty"`
	// Figures that a paper published for the same measurement on its own hardware.
	PublishedMeanProbe *float64 `json:"published_mean_probe,omitempty"`
	PublishedMaxProbe  *float64 `json:"published_max_probe,omitempty"`
	PublishedOpsPerS   *float64 `json:"published_ops_per_s,omitempty"`
}

// Latency is the distribution of the time of calls, in seconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// sample sets Runs and Spread from the runs in timings. It selects the runs by their median, which
// is the time of the row.
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

// Untime removes the times from the result of a simulated device. They depend on the host, while
// counts equal those on hardware.
func (r *Result) Untime() {
	r.Simulated, r.Limits, r.Plots = true, map[string]float64{}, nil
	for i := range r.Rows {
		row := &r.Rows[i]
		row.OpsPerS, row.LimitShare, row.Seconds, row.Limit, row.Unit = 0, 0, 0, "", ""
		row.BusyOpsPerS, row.Latency, row.Spread, row.Targets, row.Parts, row.Speedup, row.Runs = nil, nil, nil, nil, nil, nil, nil
	}
}

// Spread is the rates of calls, in operations per second.
type Spread struct {
	Slowest float64 `json:"slowest"`
	Fastest float64 `json:"fastest"`
}

// Target is a target of a row: a rate, a ratio to another row, or a maximum time.
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

// Reads holds averages over a table of buckets.
type Reads struct {
	// buckets read per lookup of a present key
	PerHit float64 `json:"buckets_per_hit,omitempty"`
	// buckets read per lookup of an absent key
	PerMiss   float64 `json:"buckets_per_miss,omitempty"`
	PerInsert float64 `json:"buckets_per_insert,omitempty"` // buckets read per insertion
	// share of buckets that have remap entries
	TypeB float64 `json:"type_b,omitempty"`
	// share of slots that hold remap entries
	Overhead float64 `json:"overhead,omitempty"`
	Entries  float64 `json:"entries,omitempty"` // remap entries set, per bucket
}

// Published is a figure from a paper, measured on the paper's hardware.
type Published struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	// "op/s", "x" for a ratio, "load", or "buckets" for buckets read per lookup
	Unit string `json:"unit"`
}

// Plot is a plot of rows.
type Plot struct {
	Name           string // part of a file name
	Title          string
	XLabel, YLabel string
	LogX, LogY     bool
	YMin           float64 // minimum of the y axis
	Series         []Series
}

// Series is one line of a plot.
type Series struct {
	Name string
	X, Y []float64
	// Published marks figures from the literature, measured elsewhere.
	Published bool
	// Limit marks a limit of the hardware, as opposed to a measurement of weft.
	Limit bool
	// Model marks the theoretical values of the previous series.
	Model bool
}

// figure returns the value of an optional field.
func figure(x float64) *float64 { return &x }
