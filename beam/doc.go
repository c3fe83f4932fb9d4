// Package beam groups, counts and joins rows in pipelines of Apache Beam. They run on Flink, Spark,
// Dataflow, or on Prism, which comes with Beam.
//
// Group, Distinct, Join and Count are transforms of collections of blocks. A block holds some ten
// thousand rows as bytes: an Arrow IPC stream of one record batch. Read reads blocks from CSV, TSV,
// JSON, Parquet and Arrow files, ReadParquet from many Parquet files. WriteParquet, WriteCSV and
// WriteJSON write blocks to files. [Encode] and [EncodeColumns] make blocks from record batches and
// columns. [Decode] and [DecodeColumns] read blocks in place. Results of transforms are blocks,
// too, so transforms can be chained.
//
//	orders, err := beam.ReadParquet(s, "gs://shop/orders-*.parquet", nil)
//	sums, err := beam.Group(s, orders, []string{"customer"}, []string{"cents"},
//		[]group.Aggregate{{Func: group.Sum}}, nil)
//	err = beam.WriteParquet(s, "gs://shop/sums", 1, sums)
//
// Programs import Beam's package of the same name as sdk:
//
//	import (
//		sdk "github.com/apache/beam/sdks/v2/go/pkg/beam"
//		"github.com/weftgo/weft/beam"
//	)
//
// One element per row costs much more than grouping the rows. For 10^7 rows in 10^5 groups, Beam's
// own SumPerKey took more than 18 times the processor time of Group. DoFns that read should
// therefore emit blocks of nearly MaxBlock bytes, some 60,000 rows of two numbers. BenchmarkGroup
// groups these rows in blocks on two cores, in milliseconds of processor time:
//
//	group.By, without Beam      108
//	Group on Prism, in process  176
//
// About 40 ms of the difference do not grow with the rows: Prism itself, and saving, partitioning
// and merging 10^5 groups.
//
// # How it works
//
// Group keeps a table of groups per bundle. At the end of the bundle it emits the table in pieces
// of at most [MaxBlock] bytes, each for one partition of the keys (see package column). A
// GroupByKey collects the pieces of each partition, and one worker merges them as it reads them.
// Rows therefore never leave the worker that read them. Options.Memory bounds both tables. If the
// groups of a bundle exceed the limit, the bundle emits them early and continues. Merged groups
// that exceed it go to a temporary file.
//
// Join distributes the rows of both sides to partitions, which a CoGroupByKey collects. With
// JoinOptions.Broadcast the right side is a side input that each worker indexes once, and left rows
// stay on their workers. Some runners hold a partition of a CoGroupByKey in memory, so
// JoinOptions.Parts must be large enough for a partition to fit.
//
// # What to expect
//
// Rows of a collection have no order. First and Last therefore need Options.Order, a column of
// integers. Without it, building the pipeline returns an error.
//
// Running a bundle twice does not change the result. A bundle keeps its state until it ends, and
// runners use the output of one run only.
//
// Sums and means of floats may differ in their last digits between runs, because they depend on the
// order of additions. All other results equal those of packages group and join, however rows are
// split into bundles.
//
// Collections must be in the global window. A damaged block fails the pipeline, and so does a block
// with other columns or types than the blocks before.
//
// # Runners
//
// Tests run pipelines on Prism, in process and with Prism and the worker as separate processes.
// They show that a killed worker ends the pipeline with an error. Prism has one worker and does not
// retry bundles. Other tests therefore drive the DoFns without a runner, and show that the result
// does not depend on how bundles are split, ordered and repeated. Flink is tested if FLINK_ENDPOINT
// is set; Spark and Dataflow are not tested.
//
// Beam's flag --resource_hints requests resources for the whole pipeline, because version 2.77 of
// the Go SDK has no hints for single transforms. If JoinOptions.Device is "auto" and the worker has
// a GPU, broadcast joins look up keys on the GPU. Options.Device does the same for grouping
// bundles.
package beam
