// Package mutate breaks kernels at random to check whether tests detect it. A mutant is the PTX of
// a structure with one change of one statement: an inverted comparison, an immediate one too large,
// a missing store, a narrowed scope of an atomic. [Mutants] lists all mutants of a file, in an
// order that a seed determines. [Run] judges some of them by the trials of a structure: programs
// under random schedules ([ScheduleTrial]), and tests that run on a simulated GPU ([DeviceTrial]).
//
// # Verdicts
//
// A mutant is killed by the first trial that it fails. One that survives all trials is judged again
// with a trap in place of its statement. If that survives, too, the trials never execute the
// statement. If the change affects one value, it is judged once more with a trap that fires if the
// value differs from the right one. If that survives, the trials never distinguish the two.
//
// Some changes have no observable effect, and that is undecidable in general. Every survivor
// therefore needs a row in the table of the structure, [Reasons], which explains why the tests need
// not detect it, or that they should. The target is to kill 95 of 100 mutants that change what
// kernels do.
//
// By default a test judges a few mutants without such a row.
//
// # Long runs
//
//	go test -c ./slab
//	./slab.test -test.run TestRandomMutants -sim.mutants=1000 -sim.mutant.log=slab.jsonl -test.timeout=0
//
// judges the first 1000 mutants of the default order on all cores and appends each verdict to a
// file, as a line of JSON. A run with an existing file continues where it ends.
// -sim.mutant.from=1000 begins after the first 1000: runs on several machines share the work that
// way. -sim.mutant=7 selects another order, and -sim.mutant.name=NAME judges one mutant and reports
// everything about it.
package mutate
