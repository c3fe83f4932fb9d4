// Package beam runs weft's jobs over rows in pipelines of Apache Beam.
package beam
