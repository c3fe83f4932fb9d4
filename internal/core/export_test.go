package core

// Streams returns the number of callers' streams that the generation of a lease records.
func (l *Lease) Streams() int { return len(l.gen.streams) }
