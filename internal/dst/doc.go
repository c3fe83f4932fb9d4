// Package dst tests maps and sets by deterministic simulation. It generates small programs of
// concurrent operations and runs them on a simulated GPU (device/sim), under schedules that a seed
// determines. It checks that some order of the operations explains their results, key by key. A
// failing program is shrunk and printed with the command that replays it.
//
// A structure's test provides a constructor of its structure and calls [Run]:
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
// key to the last write of its result. An operation that ended before another began precedes it. In
// weak memory all operations of a mixed batch are concurrent, because threads of one launch that do
// not synchronize have no common clock. The operations of a batch of one kind run in batch order,
// as structures promise by default. Otherwise they are concurrent, too.
//
// Programs of several streams submit overlapping batches. Among them are host batches in many
// pieces, iterations, clears, events between streams, and waits with contexts that end at a step of
// the seed. The results must be explained by an order that follows the promises of structures:
//
//   - batches of one stream run in order, and so do those that an event orders,
//   - changes run in the order of submission or call, on any streams,
//   - a host lookup, and an iteration, sees every change that returned before and every change
//     submitted before; it waits for nothing else,
//   - a batch that is submitted or called follows everything that the host has waited for.
//
// A lookup alongside a batch may find the value of a duplicate that does not count in the end. At
// the end every key is looked up, Len must equal the number found, and the structure is closed
// while a batch runs. In weak memory, a data race is a failure, too.
//
// [Omit] leaves out the calls by which the host orders streams or waits for them, one at a time.
// Each omission must be detected.
//
// The order is found by a search of this package's own over a [Model] of the structure. It takes
// dozens of steps where a general search takes minutes. Porcupine judges short histories, and those
// without an order, by the same model. A disagreement of the two is a failure, and so is a history
// on which both give up.
//
// # Long runs
//
// go test -sim.seeds=N tries N schedules per test instead of the test's own number, starting at
// -sim.seed. With -v each test reports the number of launches. Each launch is a separate
// interleaving. WEFT_SIM_TRACE=file with a replay shows every instruction.
package dst
