/**
 * Stems of words by the algorithms of Snowball. A language is a program: lists, made of Python's generated
 * modules by `scripts/words/stemmers.py`, which are turned into functions here. A page's content security
 * policy lets them through, and they can be sent to a worker.
 */

/** A number or truth value; a text, which names a variable; a list, which begins with what it does. */
type Node = number | boolean | string | readonly Node[];

/** What a language's file holds. */
export interface Program {
  /** Sets of characters. */
  readonly groups: Readonly<Record<string, string>>;
  /** Endings by what they mean: result, the routine that must hold or "", endings with | between. */
  readonly tables: Readonly<Record<string, readonly (readonly [number, string, string])[]>>;
  /** Variables that begin with a value. */
  readonly values: Readonly<Record<string, Value>>;
  readonly routines: Readonly<Record<string, readonly Node[]>>;
}

type Value = number | boolean | string | readonly string[];
type Expression = () => Value;
/** Runs, and tells what it ends beside itself. */
type Statement = () => number;

const [NOTHING, LOOP, ROUND, FALSE, TRUE, LABEL] = [0, 1, 2, 3, 4, 5] as const;

// The variables that every program has, by their places.
const PLACES = ["current", "cursor", "limit", "limit_backward", "bra", "ket"];
const [TEXT, CURSOR, LIMIT, START, BRA, KET] = [0, 1, 2, 3, 4, 5] as const;

const ASTRAL = /[\ud800-\udbff][\udc00-\udfff]/g;
const PRIVATE = 0xe000; // characters that no program names

/** The stem of a lower-case word, by a program. */
export function stemmer(program: Program): (word: string) => string {
  const places = new Map(PLACES.map((name, place) => [name, place]));
  const values: Value[] = [];
  const routines = new Map<string, Statement>();
  const numbers = values as number[];

  const placeOf = (name: Node): number => {
    const place = places.get(name as string) ?? places.size;
    places.set(name as string, place);
    return place;
  };

  const replace = (from: number, to: number, text: string): number => {
    const longer = text.length - (to - from);
    const current = values[TEXT] as string;
    values[TEXT] = current.slice(0, from) + text + current.slice(to);
    numbers[LIMIT]! += longer;
    if (numbers[CURSOR]! >= to) numbers[CURSOR]! += longer;
    else if (numbers[CURSOR]! > from) values[CURSOR] = from;
    return longer;
  };

  const slice = (text: string): boolean => {
    replace(numbers[BRA]!, numbers[KET]!, text);
    values[KET] = numbers[BRA]! + text.length;
    return true;
  };

  /** Steps over a character, or over all, that the group has (or, `out`, that it has not). */
  const grouping = (group: string, out: boolean, back: boolean, all: boolean): boolean => {
    for (;;) {
      const cursor = numbers[CURSOR]!;
      if (back ? cursor <= numbers[START]! : cursor >= numbers[LIMIT]!) return false;
      const isIn = group.includes((values[TEXT] as string)[back ? cursor - 1 : cursor]!);
      if (isIn === out) return all;
      values[CURSOR] = back ? cursor - 1 : cursor + 1;
      if (!all) return true;
    }
  };

  const isAt = (text: string, back: boolean): boolean => {
    const from = back ? numbers[CURSOR]! - text.length : numbers[CURSOR]!;
    const to = from + text.length;
    if (from < numbers[START]! && back) return false;
    if (to > numbers[LIMIT]! || !(values[TEXT] as string).startsWith(text, from)) return false;
    values[CURSOR] = back ? from : to;
    return true;
  };

  /** The result of the longest ending of a table that is there and whose routine holds; 0 for none. */
  const among = ({ longest, endings }: Table, back: boolean): number => {
    const cursor = numbers[CURSOR]!;
    const room = back ? cursor - numbers[START]! : numbers[LIMIT]! - cursor;
    for (let length = Math.min(longest, room); length >= 0; length--) {
      const from = back ? cursor - length : cursor;
      const ending = endings.get((values[TEXT] as string).slice(from, from + length));
      if (ending === undefined) continue;
      values[CURSOR] = back ? from : from + length;
      if (ending.routine && routines.get(ending.routine)!() !== TRUE) continue;
      values[CURSOR] = back ? from : from + length;
      return ending.result;
    }
    return 0;
  };

  const expression = (node: Node): Expression => {
    if (typeof node === "string") {
      const place = placeOf(node);
      return () => values[place]!;
    }
    if (typeof node !== "object") return () => node;
    const [name, first = 0, second = 0, third = 0] = node as readonly [string, ...Node[]];
    const back = name.endsWith("_b");
    switch (name) {
      case "'":
        return () => first as string;
      case "call":
        return () => routines.get(first as string)!() === TRUE;
      case "in_grouping":
      case "in_grouping_b":
      case "out_grouping":
      case "out_grouping_b":
      case "go_in_grouping":
      case "go_in_grouping_b":
      case "go_out_grouping":
      case "go_out_grouping_b": {
        const [group, out, all] = [program.groups[first as string]!, name.includes("out"), name.startsWith("go")];
        return () => grouping(group, out, back, all);
      }
      case "find_among":
      case "find_among_b": {
        const table = tableOf(program.tables[first as string]!);
        return () => among(table, back);
      }
    }
    const [left, right, last] = [expression(first), expression(second), expression(third)];
    const [a, b, c] = [left as () => number, right as () => number, last as () => string];
    switch (name) {
      case "+":
        return () => a() + b();
      case "-":
        return () => a() - b();
      case "==":
        return () => left() === right();
      case "!=":
        return () => left() !== right();
      case "<":
        return () => a() < b();
      case "<=":
        return () => a() <= b();
      case ">":
        return () => a() > b();
      case ">=":
        return () => a() >= b();
      case "or":
        return () => left() || right();
      case "not":
        return () => !left();
      case "len":
        return () => (left() as string).length;
      case "at":
        return () => (left() as string | readonly string[])[b()]!;
      case "eq_s":
      case "eq_s_b":
        return () => isAt(left() as string, back);
      case "slice_from":
        return () => slice(left() as string);
      case "slice_del":
        return () => slice("");
      case "slice_to":
        return () => (values[TEXT] as string).slice(numbers[BRA]!, numbers[KET]!);
      case "insert":
        return () => {
          const from = a();
          const longer = replace(from, b(), c());
          for (const place of [BRA, KET]) if (from <= numbers[place]!) numbers[place]! += longer;
          return true;
        };
    }
    throw new Error(`a stemmer's program has the unknown word ${name}`);
  };

  const block = (nodes: readonly Node[]): Statement => {
    const statements = nodes.map(statement);
    return () => {
      for (const run of statements) {
        const ended = run();
        if (ended !== NOTHING) return ended;
      }
      return NOTHING;
    };
  };

  const statement = (node: Node): Statement => {
    const [name, first = 0, second = [], third = []] = node as readonly [string, ...Node[]];
    switch (name) {
      case "=": {
        const [place, value] = [placeOf(first), expression(second)];
        return () => {
          values[place] = value();
          return NOTHING;
        };
      }
      case "if": {
        const [test, body, other] = [expression(first), block(second as Node[]), block(third as Node[])];
        return () => (test() ? body() : other());
      }
      case "while": {
        const body = block(first as Node[]);
        return () => {
          for (;;) {
            const ended = body();
            if (ended === LOOP) return NOTHING;
            if (ended > ROUND) return ended;
          }
        };
      }
      case "try": {
        const [label, body] = [LABEL + (first as number), block(second as Node[])];
        return () => {
          const ended = body();
          return ended === label ? NOTHING : ended;
        };
      }
      case "return": {
        const value = expression(first);
        return () => (value() ? TRUE : FALSE);
      }
      case "raise":
        return () => LABEL + (first as number);
      case "break":
        return () => LOOP;
      case "continue":
        return () => ROUND;
    }
    const value = expression(node);
    return () => {
      value();
      return NOTHING;
    };
  };

  for (const [name, value] of Object.entries(program.values)) values[placeOf(name)] = value;
  for (const [name, body] of Object.entries(program.routines)) routines.set(name, block(body));
  const run = routines.get("_stem")!;

  return (word) => {
    // Programs count code points: those of two units are stood in for by one.
    const astral = [...new Set(word.match(ASTRAL))];
    const standIn = (one: string): string => String.fromCharCode(PRIVATE + astral.indexOf(one));
    const text = astral.length ? word.replace(ASTRAL, standIn) : word;
    [text, 0, text.length, 0, 0, text.length].forEach((value, place) => (values[place] = value));
    run();
    return astral.reduce((stem, one) => stem.replaceAll(standIn(one), one), values[TEXT] as string);
  };
}

/** Endings with what they mean. */
interface Table {
  readonly longest: number;
  readonly endings: ReadonlyMap<string, { readonly result: number; readonly routine: string }>;
}

function tableOf(rows: Program["tables"][string]): Table {
  const endings = new Map(
    rows.flatMap(([result, routine, joined]) => joined.split("|").map((ending) => [ending, { result, routine }] as const)),
  );
  return { longest: Math.max(...Array.from(endings.keys(), (ending) => ending.length)), endings };
}
