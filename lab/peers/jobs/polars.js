// Does a job of package jobs with Polars. Its arguments are an engine of Polars, a folder of
// columns, the job, and which columns there are. It answers each line that it reads: "run" with
// "done", and "result" with four numbers, after which the result is forgotten.
const fs = require("fs"), pl = require("nodejs-polars");
const [engine, dir, job, ...names] = process.argv.slice(1);

// NAME.i64 is a column of int64, NAME.csv are lines of strings, whose columns are a and b.
function table(prefix) {
  const all = [];
  for (const name of names.filter((n) => n.startsWith(prefix))) {
    const file = dir + "/" + name, column = name.slice(prefix.length).split(".")[0];
    if (name.endsWith(".csv")) {
      const strings = pl.readCSV(file, { hasHeader: false, quoteChar: "", rechunk: true });
      strings.columns = ["a", "b"].slice(0, strings.width);
      all.push(...strings.getColumns());
    } else {
      const bytes = fs.readFileSync(file);
      const ints = new BigInt64Array(bytes.buffer, bytes.byteOffset, bytes.length / 8);
      all.push(pl.Series(column, ints));
    }
  }
  return pl.DataFrame(all).lazy();
}

const l = table("l_"), r = table("r_");
const totals = () => [pl.len().cast(pl.Int64).alias("n"), pl.col("val").sum().alias("total")];
const group = (...keys) => l.groupBy(keys).agg(...totals());
const plan = {
  group: () => group("key"),
  words: () => group("a", "b"),
  distinct: () => l.select(pl.col("key").nUnique().alias("n")),
  dedup: () => l.select(pl.col("a").nUnique().alias("n")),
  join: () => l.join(r, { on: "key", how: "inner" }).select("a", "b"),
}[job]();

// sums are those of columns and of a product of two, modulo 2^64.
function sums(t, a, b, c, d) {
  const of = (e, name) => e.sum().cast(pl.Utf8).alias(name);
  const product = pl.col(c).mul(pl.col(d));
  const all = t.select(of(pl.col(a), "a"), of(pl.col(b), "b"), of(product, "c")).row(0);
  return [t.height, ...all.map((x) => BigInt.asUintN(64, BigInt(x)))];
}

function result(t) {
  if (job === "join") return sums(t, "a", "b", "a", "b");
  if (job === "distinct" || job === "dedup") return [t.row(0)[0], 0, 0, 0];
  return sums(t, "n", "total", "n", "n");
}

global.gc();
let got;
console.log("loaded");
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  if (line === "run") {
    got = plan.collectSync({ engine });
    console.log("done");
  } else {
    console.log(result(got).join(" "));
    got = undefined;
    global.gc();
  }
});
