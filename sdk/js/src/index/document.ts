/** Documents: what they are, and checking what a caller gives. Python's `documents.py`. */
import { InvalidInputError } from "../errors.js";
import { kindOf, repr, stripped } from "../python_text.js";
import { checkText } from "../texts.js";

/** JSON values by name; `title`, where there is one, is searched too. */
export type Metadata = Record<string, unknown>;

/**
 * A text to be found. One whose title and text say too little, no word or a single letter or digit, is
 * stored and found by its words alone, whatever vector comes with it: by meaning it would be first for
 * most short queries.
 */
export interface Document {
  /** Unique in its index, not empty. */
  readonly id: string;
  /** What a search returns. */
  readonly text: string;
  readonly metadata: Metadata;
}

/** A document as a caller gives it. */
export interface NewDocument {
  readonly id: string;
  readonly text: string;
  readonly metadata?: Metadata;
}

const MOST_DEPTH = 100; // lists and objects within each other

/** The text that is encoded and searched: the title, where there is one, and the text. */
export function content(document: NewDocument): string {
  const title = document.metadata?.["title"];
  return stripped(typeof title === "string" ? `${title} ${document.text}` : document.text);
}

/**
 * `document` as it is stored: a copy that later changes by the caller do not reach.
 * @throws InvalidInputError it cannot be stored; calls it `where`
 */
export function checkDocument(document: unknown, where: string): Document {
  if (!isObject(document)) {
    throw new InvalidInputError(`${where} is ${kindOf(document)}, expected a document`);
  }
  const id = checkText(document["id"], `the id of ${where}`);
  if (!id) throw new InvalidInputError(`the id of ${where} is empty; expected a unique text`);
  const named = `${where} (${repr(id)})`;
  const text = checkText(document["text"], `the text of ${named}`);
  const metadata = document["metadata"] ?? {};
  if (!isObject(metadata)) {
    throw new InvalidInputError(`the metadata of ${named} is not an object with names as keys`);
  }
  return { id, text, metadata: copied(metadata, `the metadata of ${named}`, 1) as Metadata };
}

/** Whether `value` is a plain object, as JSON has them. */
export function isObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function copied(value: unknown, where: string, depth: number): unknown {
  if (typeof value === "string") return checkText(value, where);
  if (value === null || typeof value === "boolean" || Number.isFinite(value)) return value;
  if (depth > MOST_DEPTH) {
    throw new InvalidInputError(`${where} is nested more than ${MOST_DEPTH} deep`);
  }
  if (Array.isArray(value)) return Array.from(value, (item) => copied(item, where, depth + 1));
  if (isObject(value)) {
    const entries = Object.entries(value);
    return Object.fromEntries(
      entries.map(([name, item]) => [checkText(name, where), copied(item, where, depth + 1)]),
    );
  }
  throw new InvalidInputError(
    `${where} cannot be JSON: found ${kindOf(value)}; expected texts, finite numbers, booleans, ` +
      "null, lists and objects of them",
  );
}
