package core

// Streams returns the number of streams of callers that a lease's generation records.
func (l *Lease) Streams() int { return len(l.gen.streams) }
