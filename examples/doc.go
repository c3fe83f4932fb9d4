// Package examples holds small programs to start from. Each is a folder of its
// own, opens the best device there is, and prints the same on all of them, but for durable, which is for the CPU:
//
//	go run ./examples/dedup <ids.txt    keys seen for the first time: a set
//	go run ./examples/join              two tables by a column: an index of rows
//	go run ./examples/timerange <lines  what came between two times, while more comes: an ordered map
//	go run ./examples/ledger            reports beside transfers: snapshots
//	go run ./examples/device            batches that stay on the device
//	go run ./examples/kernel            a filter, a join and a sum in one kernel
//	go run ./examples/durable /dev/shm/visits <visits.txt
//	                                    counts that survive kill -9: a map in a file
package examples
