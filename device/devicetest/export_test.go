package devicetest

// CallsOf lists the calls in a file, which may be a test file.
var CallsOf = callsOf
