// Package dst tests maps and sets by deterministic simulation. It generates small programs of
// concurrent operations. It runs them on a simulated GPU (device/sim), under schedules that a seed
// determines. For each key, it checks that some order of the operations explains their results. A
// failing program is shrunk and printed with the command that replays it.
//
// The test of a structure calls [Run] with a constructor of the structure:
//
//	dst.Run(t, dst.Config[uint64, uint64]{
//		New: func(dev device.Device, s dst.Shape) (dst.Subject[uint64, uint64], error) {
//			m, err := linear.New[uint64, uint64](dev, &linear.Options{Capacity: s.Capacity, Fixed: s.Fixed})
//			if err != nil {
//				return nil, err
//			}
//			return dst.Map(m), nil
//		},
//	})
//
// # What is checked
//
// In sequentially consistent memory, an operation of a mixed batch lasts from the first read of its
// key to the last write of its result. An operation that ended before another operation began
// precedes it. In weak memory all operations of a mixed batch are concurrent, because threads of
// one launch that do not synchronize have no common clock. The operations of a batch of one kind
// run in batch order, if the structure promises that. Otherwise they are concurrent, too.
//
// Programs with several streams submit overlapping batches. They also run host batches in many
// pieces, iterations, clears, events between streams, and waits with contexts that end at a step
// that the seed determines. The results must be explained by an order that the structures promise:
//
//   - Batches of one stream run in order, and so do batches that an event orders.
//   - Changes run in the order of submission or call, on any streams.
//   - A host lookup or an iteration sees every change that returned before it and every change
//     submitted before it. It waits for nothing else.
//   - A batch that is submitted or called follows everything that the host has waited for.
//
// A lookup that runs alongside a batch may find the value of a duplicate that loses in the end. At
// the end every key is looked up, Len must equal the number of pairs found, and the structure is
// closed while a batch runs. In weak memory, a data race is a failure, too.
//
// [Omit] omits the calls with which the host orders streams or waits for them, one at a time. A
// test must detect each omission.
//
// A search over a [Model] of the structure finds the order. It takes dozens of steps for histories
// on which a general search takes minutes. Porcupine uses the same model to judge short histories
// and histories without an order. If the two disagree, or if both reach no result, the test fails.
//
// # Long runs
//
// go test -sim.seeds=N tries N schedules per test instead of the test's own number, starting with
// seed -sim.seed. With -v each test reports the number of launches. Each launch is a separate
// interleaving. During a replay, WEFT_SIM_TRACE=file writes every instruction to a file.
package dst
