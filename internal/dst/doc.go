// Package dst tests maps and sets by deterministic simulation. It makes up
// small programs of concurrent operations, runs them on a simulated GPU
// (device/sim) under schedules that a seed determines, and checks that what
// the operations returned is explained by some order of them, key by key.
// What fails is shrunk and printed with the command that replays it.
//
// A structure's test says how to make its structure and calls [Run]:
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
// In sequentially consistent memory, an operation of a mixed batch lasts from
// the first read of its key to the last write of its result, and an operation
// that ended before another began comes before it. In weak memory all
// operations of a mixed batch are concurrent: threads of one launch that do not
// synchronize have no common clock. The operations of a batch of one kind
// follow each other in batch order, as structures promise unless told
// otherwise; then they are concurrent, too.
//
// Programs of several streams submit batches that overlap, among batches of the
// host in many pieces, iterations, clears, events between streams, and waits
// whose contexts end at a step of the seed. What they return must be explained
// by an order that keeps to what structures promise:
//
//   - batches of one stream follow each other, and so do those that an event
//     orders,
//   - changes follow each other as they were submitted or called, whatever
//     their streams,
//   - a lookup of the host, and an iteration, sees every change whose call has
//     returned and every change submitted before it; nothing else is waited
//     for,
//   - whatever is submitted or called comes after what the host had waited for.
//
// A lookup beside a batch may meanwhile find the value of a duplicate that does
// not count in the end. At the end every key is looked up, Len must be the number
// found, and the structure is closed with a batch under way. In weak memory, a
// data race is a failure, too.
//
// [Omit] leaves out the calls by which the host orders streams or waits for them,
// one at a time: each must be noticed.
//
// An order is looked for by a search of our own over a [Model] of the structure,
// which takes some dozens of steps where a general one takes minutes. Porcupine
// judges short histories and those without an order by the same model; it is a
// failure, too, if the two disagree. So is a history on which both give up.
//
// # Long runs
//
// go test -sim.seeds=N tries N schedules per test instead of the test's own
// number, starting at -sim.seed. With -v each test tells how many launches there
// were: every launch is an interleaving of its own. WEFT_SIM_TRACE=file beside
// a replay shows every instruction.
package dst
