// Package beam runs weft's jobs over rows in pipelines of Apache Beam: on Flink, Spark, Dataflow,
// or on Prism, which comes with Beam.
//
// Group, Distinct, Join and Count are transforms of collections of blocks. A block is some ten
// thousand rows as bytes: an Arrow IPC stream of one record batch. Read reads blocks from CSV, TSV,
// JSON, Parquet and Arrow files, ReadParquet from many Parquet files; WriteParquet, WriteCSV and
// WriteJSON write them. [Encode] and [EncodeColumns] make blocks of record batches and of columns,
// [Decode] and [DecodeColumns] read them in place. Results are blocks, too, so transforms follow
// each other.
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
// An element per row costs much more than the job: of 10^7 rows in 10^5 groups, Beam's own
// SumPerKey took more than 18 times the processor time of blocks. So DoFns that read should emit
// blocks of nearly MaxBlock bytes, some 60,000 rows of two numbers. BenchmarkGroup, with these rows
// in blocks on two cores, in milliseconds of processor time:
//
//	group.By, without Beam      108
//	Group on Prism, in process  176
//
// Of the difference some 40 ms do not grow with the rows: Prism, and 10^5 groups that are saved,
// cut by partition, and merged.
//
// # How it works
//
// Group keeps a table of groups per bundle. At the end of the bundle it emits their state, cut by
// partition of the keys (see package column), in pieces of at most [MaxBlock] bytes. A GroupByKey
// brings the pieces of a partition together, and one worker merges them as it reads them. So rows
// never leave the worker that has read them. Options.Memory bounds both tables: if the groups of a
// bundle exceed it, the bundle emits them and continues. Merged groups go to a temporary file.
//
// Join distributes the rows of both sides to partitions, and a CoGroupByKey brings these together.
// With JoinOptions.Broadcast the right side is a side input, which each worker indexes once, and
// left rows stay where they are. Some runners hold a partition of a CoGroupByKey in memory: Parts
// should be large enough for that.
//
// # What to expect
//
// Rows of a collection have no order. First and Last therefore need Options.Order, a column of
// integers; without it they are an error when the pipeline is built.
//
// A bundle that runs twice changes nothing. A bundle keeps its state until it ends, and runners
// use the output of one run of each.
//
// Sums and means of floats may differ in their last digits from one run to the next, because they
// depend on the order of additions. All other results are those of packages group and join, for any
// bundles.
//
// Collections are in the global window. Blocks with other columns or types than those before, and
// damaged ones, fail the pipeline.
//
// # Runners
//
// Tests run pipelines on Prism, in process and with Prism and the worker as processes of their own.
// They show that a killed worker ends the pipeline in an error. Prism has one worker and does not
// retry bundles. So retries are shown by tests that drive the DoFns without a runner: any split,
// order and repetition of bundles gives the same result. Flink is tested where FLINK_ENDPOINT is
// set; Spark and Dataflow are not.
//
// Resource hints are Beam's flag --resource_hints, which holds for the whole pipeline: version
// 2.77 of its Go SDK has none for single transforms. Broadcast joins look keys up on a GPU if
// JoinOptions.Device is "auto" and the worker has one, and bundles are grouped there if
// Options.Device is.
package beam
