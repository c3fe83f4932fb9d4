// Package mutate breaks kernels at random to check that tests fail. A mutant is the PTX of a
// structure with one change of one statement: an inverted comparison, an immediate one too large, a
// missing store, a narrowed scope of an atomic. [Mutants] lists all mutants of a file, in an order
// that a seed determines. [Run] judges some of them by the trials of a structure: programs under
// random schedules ([ScheduleTrial]), and tests on a simulated GPU ([DeviceTrial]).
//
// # Verdicts
//
// The first trial that fails kills a mutant. If a mutant survives all trials, two probes say more
// about it. The first probe replaces the statement by a trap. If no trial fails then, the trials
// never execute the statement. The second probe adds a trap that fires if the changed value differs
// from the right one. It is possible if the change affects one value. If no trial fails then, the
// two values never differ in the trials.
//
// Some changes have no observable effect, and that is undecidable in general. Every survivor
// therefore needs a row in the structure's table ([Reasons]). The row explains why the tests need
// not detect the mutant, or says that they should. The target is to kill 95 of 100 mutants that
// change what kernels do.
//
// By default a test judges a few mutants that have no row.
//
// # Long runs
//
//	go test -c ./slab
//	./slab.test -test.run TestRandomMutants -sim.mutants=1000 -sim.mutant.log=slab.jsonl -test.timeout=0
//
// judges the first 1000 mutants of the default order on all cores. It appends each verdict to a
// file, as a line of JSON. If the file exists, the run continues where the file ends.
// -sim.mutant.from=1000 skips the first 1000 mutants, so that several machines can share the work.
// -sim.mutant=7 selects another order. -sim.mutant.name=NAME judges one mutant and reports
// everything about it.
package mutate
