// Package examples holds small programs to start from. Each is in a folder of its own, opens the
// best device, and prints the same output on every device. Only durable is limited to the CPU:
//
//	go run ./examples/dedup <ids.txt    keys seen for the first time: a set
//	go run ./examples/join              two tables by a column: an index of rows
//	go run ./examples/timerange <lines  events between two times, while more arrive: an ordered map
//	go run ./examples/ledger            reports alongside transfers: snapshots
//	go run ./examples/device            batches that stay on the device
//	go run ./examples/kernel            a filter, a join and a sum in one kernel
//	go run ./examples/durable /dev/shm/visits <visits.txt
//	                                    counts that survive kill -9: a map in a file
package examples
