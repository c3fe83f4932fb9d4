// Package plan predicts the cost of a map over many processors: memory, number of processors, and
// time per batch. In the model, a batch is partitioned by rank, exchanged and looked up, and the
// answers are exchanged back. The time of a step is a count divided by a rate. Rates were measured
// on one processor or one pair of them, and not on more.
package plan

import (
	"fmt"
	"math"
)

// Processor holds a shard. It is a GPU, or a node that uses its CPUs.
type Processor struct {
	Name    string
	Memory  float64 // bytes for tables
	PerNode int     // processors per node
	Stream  float64 // bytes per second that a pass over a batch reads and writes
	Lookups float64 // keys per second, for keys and values of 64 bits at load 0.8
	Inserts float64
	Inner   Link // link between processors of a node
}

// Link is a connection between processors.
type Link struct {
	Name    string
	Latency float64 // seconds per peer
	Rate    float64 // bytes per second that each processor sends
}

// Processors lists the processors with measured rates. The rates of the H200 were measured with
// package linear on one GPU, and with NCCL between two. The rates of the CPU are those of two cores
// of a Xeon, times 32.
var Processors = []Processor{
	{Name: "h200", Memory: 120e9, PerNode: 8, Stream: 4273e9, Lookups: 23.6e9, Inserts: 9.8e9,
		Inner: Link{"NVLink", 4e-6, 327e9}},
	{Name: "cpu", Memory: 900e9, PerNode: 1, Stream: 12.6e9 * 32, Lookups: 27.5e6 * 32, Inserts: 15.6e6 * 32},
}

// Find returns the processor with the given name.
func Find(name string) (Processor, error) {
	for _, p := range Processors {
		if p.Name == name {
			return p, nil
		}
	}
	return Processor{}, fmt.Errorf("%.40q: want h200 or cpu", name)
}

// NIC returns the link of a network card with the given Gbit per second. Data gets 0.9 of this
// rate.
func NIC(gbit float64) Link { return Link{fmt.Sprintf("%g Gbit/s", gbit), 8e-6, gbit / 8 * .9 * 1e9} }

// Job describes a map and the processors that hold it.
type Job struct {
	Keys     float64
	Key      float64 // bytes per key
	Value    float64 // bytes per value
	Load     float64 // share of slots in use
	Replicas float64
	On       Processor
	NIC      Link // link of each processor to other nodes
	Ranks    int  // number of processors; 0: the minimum with enough memory
}

// Cost is the cost of a map.
type Cost struct {
	Bytes   float64 `json:"bytes"` // size of the tables, without replicas
	Ranks   int     `json:"ranks"`
	Nodes   int     `json:"nodes"`
	Fill    float64 `json:"fill_seconds"` // time in which all pairs cross the links once
	Failure float64 `json:"failure_days"` // mean time between failures of any processor
}

// failures is the number of failures per GPU and day, in the log of one training run on 16,384
// GPUs.
const failures = 4.7e-4

// Cost returns the cost of the job's map.
func (j *Job) Cost() Cost {
	n := Cost{Bytes: j.Keys * (j.Key + j.Value) / j.Load, Ranks: j.Ranks}
	if n.Ranks == 0 {
		n.Ranks = int(math.Ceil(n.Bytes * j.Replicas / j.On.Memory))
	}
	n.Nodes = (n.Ranks + j.On.PerNode - 1) / j.On.PerNode
	n.Fill = j.Keys * (j.Key + j.Value) / float64(n.Ranks) / j.link(n.Ranks).Rate
	n.Failure = 1 / (failures * float64(n.Ranks))
	return n
}

// link returns the slowest link that the given number of ranks use.
func (j *Job) link(ranks int) Link {
	if ranks <= j.On.PerNode && j.On.PerNode > 1 {
		return j.On.Inner
	}
	return j.NIC
}

// Batch is the prediction for one call.
type Batch struct {
	Keys      float64 `json:"keys"` // keys per rank
	Seconds   float64 `json:"seconds"`
	PerRank   float64 `json:"per_rank"` // keys per second
	Total     float64 `json:"total"`
	TwoLevels bool    `json:"two_levels"` // the exchange is first within nodes, then between them
	Message   float64 `json:"message"`    // bytes that a rank sends to another
	// largest message from a rank divided by the mean, for random keys
	Largest float64 `json:"largest"`
	// largest number of keys on a rank divided by the mean, for random keys
	Skew  float64 `json:"skew"`
	Bound string  `json:"bound"` // step that takes longest
}

// Exchange describes the exchange of a batch in words.
func (b Batch) Exchange() string {
	if b.TwoLevels {
		return "two levels"
	}
	return "flat"
}

// minMessage is the message size below which latency bounds an exchange, and not the link's rate.
const minMessage = 256 << 10

// Lookup predicts a call of Get with the given keys per rank.
func (j *Job) Lookup(ranks int, keys float64) Batch {
	return j.batch(ranks, keys, j.Key, j.Value, j.On.Lookups)
}

// Insert predicts a call of Put with the given keys per rank. Its answer takes one byte per key.
func (j *Job) Insert(ranks int, keys float64) Batch {
	return j.batch(ranks, keys, j.Key+j.Value, 1, j.On.Inserts)
}

// batch predicts a call. out and back are the bytes per key that are sent and returned. rate is the
// number of keys that the table processes per second.
func (j *Job) batch(ranks int, keys, out, back, rate float64) Batch {
	b := Batch{Keys: keys, Message: out * keys / float64(ranks), Largest: 1, Skew: 1}
	table, deal := keys/rate, keys*2*(j.Key+j.Value)/j.On.Stream
	if ranks == 1 {
		deal = 0
	} else {
		deviation := math.Sqrt(2 * math.Log(float64(ranks)) / keys)
		b.Skew += deviation
		b.Largest += deviation * math.Sqrt(float64(ranks))
	}
	latency, link := j.exchange(ranks, keys*(out+back))
	if ranks > j.On.PerNode && j.On.PerNode > 1 && b.Message < minMessage {
		if l, k := j.twoLevels(ranks, keys*(out+back)); l+k < latency+link {
			latency, link, b.TwoLevels = l, k, true
		}
	}
	b.Seconds = latency + link + deal + table
	b.PerRank = keys / b.Seconds
	b.Total = b.PerRank * float64(ranks)
	most := 0.
	for _, step := range []struct {
		name    string
		seconds float64
	}{{"table", table}, {"link", link}, {"latency", latency}, {"partition", deal}} {
		if step.seconds > most {
			most, b.Bound = step.seconds, step.name
		}
	}
	return b
}

// exchange returns the seconds of two exchanges between all ranks. The time consists of latency,
// and of link, which alone depends on the number of bytes.
func (j *Job) exchange(ranks int, bytes float64) (latency, link float64) {
	l, p := j.link(ranks), float64(ranks)
	if ranks == 1 {
		return 0, 0
	}
	return 2 * l.Latency * p, bytes * (p - 1) / (p * l.Rate)
}

// twoLevels returns the seconds of exchanges within nodes, followed by exchanges between processors
// with the same number in all nodes. See exchange for the results.
func (j *Job) twoLevels(ranks int, bytes float64) (latency, link float64) {
	inner, nodes := float64(j.On.PerNode), math.Ceil(float64(ranks)/float64(j.On.PerNode))
	latency = 2 * (j.On.Inner.Latency*inner + j.NIC.Latency*nodes)
	link = bytes * ((inner-1)/(inner*j.On.Inner.Rate) + (nodes-1)/(nodes*j.NIC.Rate))
	return latency, link
}
