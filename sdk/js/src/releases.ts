/**
 * Which release is in force, apart from the rest so that a page which only searches does not load it:
 *
 *     const statements = parseLineage(bytes); // from the registry
 *     checkLineageBelongs(statements[0], encoder.manifest);
 *     const known = await follow(statements, { known: kept, publicKey });
 *     const { version, sha256 } = await targetFor(known, secret); // which release to fetch
 */

export { type AdapterRelease, parseAdapter, readAdapter } from "./bundle/adapter.js";
export { checkLineageBelongs, follow, type FollowOptions, parseLineage } from "./bundle/lineage.js";
export {
  isOlder,
  parseStatement,
  type RollOut,
  type Statement,
  type StatementKey,
  type Target,
  targetFor,
} from "./bundle/statement.js";
