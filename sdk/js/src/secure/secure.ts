/**
 * Private rounds through a gateway (experimental), apart from the rest so that a device of plain
 * rounds does not load it:
 *
 *     const participant = await Participant.open({ device, store, place, certificate, authority });
 *     const outcome = await participation.takePart(participant);
 *
 * docs/privacy.md says what they promise, docs/formats/private-rounds.md has the messages.
 */

export { enrolmentRequest } from "./certificate.js";
export { type Account, epsilonOf, Ledger } from "./ledger.js";
export { Participant, type ParticipantOptions, type Trainer } from "./participant.js";
export { DEVICE_RULES, type DeviceRules, deviceRules } from "./rules.js";
