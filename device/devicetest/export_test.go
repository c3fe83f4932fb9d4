package devicetest

// CallsOf lists the calls of a file, also of a test file.
var CallsOf = callsOf
