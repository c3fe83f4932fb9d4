// Package examples holds small programs to start from. Each is a folder of its
// own, opens the best device there is, and prints the same on all of them:
//
//	go run ./examples/dedup <ids.txt    keys seen for the first time: a set
//	go run ./examples/join              two tables by a column: a map
//	go run ./examples/device            batches that stay on the device
//	go run ./examples/kernel            a filter, a join and a sum in one kernel
package examples
