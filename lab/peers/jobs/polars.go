package main

import (
	"bufio"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

//go:embed polars.js
var polarsScript string

// polars returns Polars, a table library in Rust, with one of its two engines. Each engine is
// faster at some jobs. It runs in a process of node.
func polars(name, engine string) Peer {
	load := func(j Job) (Work, error) { return ofPolars(j, engine) }
	return Peer{Name: name, Rival: true, Load: load, Skip: func() string {
		if _, err := exec.LookPath("node"); err != nil {
			return "no node"
		}
		if exec.Command("node", "-e", `require("nodejs-polars")`).Run() != nil {
			return "node finds no package nodejs-polars; see the comment of this command"
		}
		return ""
	}}
}

// ofPolars starts a process of node, which reads columns from files and then runs the job on
// request.
func ofPolars(j Job, engine string) (w Work, err error) {
	dir, err := os.MkdirTemp("", "jobs")
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	names, err := writeColumns(dir, j)
	if err != nil {
		return w, err
	}
	args := append([]string{"--expose-gc", "-e", polarsScript, engine, dir, j.Does}, names...)
	cmd := exec.Command("node", args...)
	cmd.Env = append(os.Environ(), "POLARS_MAX_THREADS="+strconv.Itoa(cores()))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return w, err
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return w, err
	}
	lines := bufio.NewScanner(stdout)
	ask := func(question string, answer ...any) error {
		if _, err := io.WriteString(stdin, question); err != nil {
			return err
		}
		if !lines.Scan() {
			return errors.Join(lines.Err(), io.ErrUnexpectedEOF)
		}
		_, err := fmt.Sscan(lines.Text(), answer...)
		return err
	}
	w = Work{
		PID: cmd.Process.Pid,
		Run: func() error { return ask("run\n") },
		Result: func() (r Result, err error) {
			err = ask("result\n", &r.Rows, &r.A, &r.B, &r.C)
			return r, err
		},
		Close: func() error { return errors.Join(stdin.Close(), cmd.Wait()) },
	}
	if err = ask(""); err != nil { // the answer means that it has loaded the columns
		err = errors.Join(err, w.Close())
	}
	return w, err
}

// writeColumns writes the columns of a job to files. A file name begins with the name of the table.
func writeColumns(dir string, j Job) (names []string, err error) {
	write := func(name string, data func(io.Writer) error) {
		f, ferr := os.Create(filepath.Join(dir, name))
		if ferr == nil {
			ferr = errors.Join(data(f), f.Close())
		}
		err, names = errors.Join(err, ferr), append(names, name)
	}
	ints := func(name string, c []int64) {
		if c != nil {
			write(name, func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, c) })
		}
	}
	ints("l_key.i64", j.Left)
	ints("l_val.i64", j.Values)
	if j.Right != nil {
		ints("l_a.i64", numbered(len(j.Left)))
		ints("r_key.i64", j.Right)
		ints("r_b.i64", numbered(len(j.Right)))
	}
	if j.Texts != nil {
		write("l_texts.csv", func(w io.Writer) error {
			all := bufio.NewWriter(w)
			for i := range j.Rows {
				for k, t := range j.Texts {
					all.Write(t.at(i))
					all.WriteByte(",\n"[min(k+2-len(j.Texts), 1)])
				}
			}
			return all.Flush()
		})
	}
	return names, err
}
