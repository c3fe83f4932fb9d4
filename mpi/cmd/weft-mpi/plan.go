package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/weftgo/weft/internal/progress"
	"github.com/weftgo/weft/internal/table/flags"
	"github.com/weftgo/weft/mpi/internal/plan"
)

// planOptions holds the flags of weft-mpi plan.
type planOptions struct {
	plan.Job
	bytes, nic float64
	gpu        string
	batches    []float64
	run        bool
}

func newPlanCommand(a *app) *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan [flags]",
		Short: "Predict memory, processors and time of a map over many processors",
		Long: `Plan predicts the memory of a hash map over many processors, and the number of processors that the
map needs. It also predicts the time of a batch of lookups and of a batch of insertions, and the step
that limits each batch.

The model partitions a batch by rank, exchanges it, runs it on each shard, and exchanges the answers
back. If it is faster for small messages, ranks first exchange within nodes, and then nodes exchange
with nodes ("two levels"). The rates of the model were measured on one processor and on one pair of
processors, not on more.

With --json the output is one object: bytes, ranks, nodes, fill_seconds, failure_days, lookups and
insertions. The last two are lists of objects: keys (per rank), seconds, per_rank and total (keys per
second), two_levels, message (bytes), largest, skew, bound.`,
		Example: `  weft-mpi plan --keys 1e12 --bytes 16 --gpu h200 --nic 400
  weft-mpi plan --keys 1e10 --bytes 12 --gpu cpu --nic 100 --batch 1e6`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.print(cmd.Context(), a) },
	}
	set := cmd.Flags()
	set.Float64Var(&o.Keys, "keys", 1e12, "number of keys in the map")
	set.Float64Var(&o.bytes, "bytes", 16, "bytes per pair, including 8 bytes for the key")
	set.Float64Var(&o.Load, "load", .85, "share of slots in use")
	set.Float64Var(&o.Replicas, "replicas", 1, "number of copies of each shard")
	set.StringVar(&o.gpu, "gpu", "h200", "processor: h200, or cpu for nodes of 64 cores and 0.9 TB")
	set.Float64Var(&o.nic, "nic", 400, "rate of the network card of each processor, in Gbit per second")
	set.IntVar(&o.Ranks, "ranks", 0, "number of processors; 0: as few as have enough memory")
	set.Float64SliceVar(
		&o.batches,
		"batch",
		[]float64{1e5, 1e6, 1e7, 1e8},
		"keys per batch and rank",
	)
	set.BoolVar(&o.run, "try", false,
		"also run lookups on the same number of local ranks, and print message sizes and skew")
	return cmd
}

func (o *planOptions) check() (err error) {
	for _, f := range []struct {
		name     string
		v, least float64
		most     float64
	}{
		{"keys", o.Keys, 1, 1e18}, {"bytes", o.bytes, 8, 1 << 20}, {"load", o.Load, .01, 1}, {"replicas", o.Replicas, 1, 100},
		{"nic", o.nic, .1, 1e5}, {"ranks", float64(o.Ranks), 0, 1e6},
	} {
		if !(f.v >= f.least && f.v <= f.most) {
			return flags.Usage("plan --%s %g: want %g to %g", f.name, f.v, f.least, f.most)
		}
	}
	for _, n := range o.batches {
		if !(n >= 1 && n <= 1e12) {
			return flags.Usage("plan --batch %g: want 1 to 1e12", n)
		}
	}
	if o.On, err = plan.Find(o.gpu); err != nil {
		return flags.Usage("plan --gpu %w", err)
	}
	o.Key, o.Value, o.NIC = 8, o.bytes-8, plan.NIC(o.nic)
	return nil
}

// planOutput is the output of weft-mpi plan --json.
type planOutput struct {
	plan.Cost
	Lookups    []plan.Batch `json:"lookups"`
	Insertions []plan.Batch `json:"insertions"`
	Tried      []trial      `json:"tried,omitempty"`
}

func (o *planOptions) print(ctx context.Context, a *app) error {
	if err := o.check(); err != nil {
		return err
	}
	out := planOutput{Cost: o.Cost()}
	for _, n := range o.batches {
		out.Lookups = append(out.Lookups, o.Lookup(out.Ranks, n))
		out.Insertions = append(out.Insertions, o.Insert(out.Ranks, n))
	}
	if o.run {
		if out.Ranks > maxLocal {
			return flags.Usage(
				"plan --try: %d ranks; want at most %d in this process; set --ranks",
				out.Ranks,
				maxLocal,
			)
		}
		var err error
		if out.Tried, err = o.try(ctx, out.Ranks, out.Lookups); err != nil {
			return err
		}
	}
	if a.json {
		return json.NewEncoder(a.stdout).Encode(out)
	}
	need := o.Replicas * out.Bytes / float64(out.Ranks)
	fmt.Fprintf(a.stdout, "%g keys of %g bytes at load %g", o.Keys, o.bytes, o.Load)
	if o.Replicas > 1 {
		fmt.Fprintf(a.stdout, ", in %g copies", o.Replicas)
	}
	total := progress.SI(o.Replicas*out.Bytes, "B")
	fmt.Fprintf(a.stdout, ": %s on %d × %s in %s, %s each", total, out.Ranks, o.On.Name,
		progress.Counted(int64(out.Nodes), "node"), progress.SI(need, "B"))
	if need > o.On.Memory {
		fmt.Fprintf(a.stdout, ", and they have %s", progress.SI(o.On.Memory, "B"))
	}
	fmt.Fprintf(a.stdout, "\nAll pairs cross the links in %.3g s. One of %d fails every %.3g days.\n\n",
		out.Fill, out.Ranks, out.Failure)
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.AppendHeader(
		table.Row{
			"batch",
			"keys a rank",
			"ms",
			"keys/s a rank",
			"keys/s",
			"bound by",
			"exchange",
			"message",
			"largest message", "fullest rank",
		},
	)
	for _, of := range []struct {
		name    string
		batches []plan.Batch
	}{{"lookups", out.Lookups}, {"insertions", out.Insertions}} {
		for _, b := range of.batches {
			t.AppendRow(
				table.Row{
					of.name,
					progress.SI(b.Keys, ""),
					fmt.Sprintf("%.3g", b.Seconds*1e3),
					progress.SI(b.PerRank, ""),
					progress.SI(
						b.Total,
						"",
					),
					b.Bound,
					b.Exchange(),
					progress.SI(b.Message, "B"),
					fmt.Sprintf("%.2f × mean", b.Largest), fmt.Sprintf("%.3f × mean", b.Skew),
				},
			)
		}
	}
	var right []table.ColumnConfig
	for _, n := range []int{2, 3, 4, 5, 8, 9, 10} {
		right = append(
			right,
			table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight},
		)
	}
	t.SetColumnConfigs(right)
	if _, err := fmt.Fprintln(a.stdout, t.Render()); err != nil || !o.run {
		return err
	}
	return o.printTried(a, out)
}

func (o *planOptions) printTried(a *app, out planOutput) error {
	fmt.Fprintf(
		a.stdout,
		"\n%d ranks in this process, lookups of random keys (tried; model):\n",
		out.Ranks,
	)
	for i, t := range out.Tried {
		b := out.Lookups[i]
		_, err := fmt.Fprintf(
			a.stdout,
			"%s keys a rank: smallest message %s; mean %s. Fullest rank %.3f; %.3f × mean.\n",
			progress.SI(
				t.Keys,
				"",
			),
			progress.SI(t.Smallest, "B"),
			progress.SI(b.Message, "B"),
			t.Skew,
			b.Skew,
		)
		if err != nil {
			return err
		}
	}
	return nil
}
