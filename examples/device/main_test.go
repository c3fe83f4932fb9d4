package main

func Example() {
	main()
	// Output: 750000 of 1000000 keys found, 750000 stored
}
