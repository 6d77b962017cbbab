/**
 * Federated rounds through a gateway, apart from the rest so that a page which only searches does not
 * load it:
 *
 *     const place = new IndexedDbPlace(); // Node: FolderPlace of pocketquery/node
 *     const participation = new Participation(new GatewayConnection(address, await place.signer()), place);
 *     const take = (release) => encoder.swapAdapter(release);
 *     await join(participation, { device: async () => device, manifest, releases, take }); // until it is stopped
 *
 * docs/gateway.md has the messages, docs/federation.md what rounds are.
 */

export {
  type Answer,
  type ConnectionOptions,
  GatewayConnection,
  RefusedError,
} from "./gateway/connection.js";
export {
  type Answering,
  type Contribution,
  type Declined,
  Device,
  type DeviceOptions,
  forgetRounds,
  type Training,
} from "./gateway/device.js";
export { IndexedDbPlace } from "./gateway/indexed_db_place.js";
export { type Offer, readOfferMessage, UnusableOfferError } from "./gateway/offer.js";
export { OFFER_LIMITS, type OfferLimits, offerLimits, offerRefusal } from "./gateway/offer_limits.js";
export { join, type JoinOptions } from "./gateway/join.js";
export { type Outcome, Participation, type Take } from "./gateway/participation.js";
export { type PrivateAnswering } from "./gateway/private_round.js";
export { type AgreementKey } from "./gateway/agreement.js";
export { type DevicePlace, MemoryPlace, RELEASE } from "./gateway/place.js";
export {
  ALWAYS_POLICY,
  checkPolicy,
  type DeviceReading,
  guard,
  PageReadings,
  PHONE_POLICY,
  type Policy,
  policyRefusal,
  type Readings,
} from "./gateway/policy.js";
export { type Signer, signedHeaders, signerOf, signerOfBytes } from "./gateway/signing.js";
export { TrustedReleases, type TrustOptions } from "./gateway/trusted_releases.js";
export {
  boundedWeight,
  type EncodedUpdate,
  encodeUpdate,
  type UpdateHeader,
  type UpdateOptions,
} from "./gateway/update.js";
