import { client, unwrap } from "./client";
import type { Me } from "./types";

/** What the server wants signed: options for `navigator.credentials`, and a seal to send back. */
export interface KeyChallenge {
  options: unknown;
  state: string;
}

export interface KeyAnswer {
  credential: unknown;
  state: string;
}

/** Whether this browser makes and uses keys here: there are none for addresses in digits. */
export const browserHasKeys = () =>
  !/^[\d.]+$|:/.test(location.hostname) &&
  typeof PublicKeyCredential !== "undefined" &&
  "parseRequestOptionsFromJSON" in PublicKeyCredential;

/** Lets the browser sign a challenge; the user touches a key or shows a fingerprint. */
export async function signWithKey({ options, state }: KeyChallenge): Promise<KeyAnswer> {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(
    options as PublicKeyCredentialRequestOptionsJSON,
  );
  return answerOf(await ask(navigator.credentials.get({ publicKey })), state);
}

/** Adds a key to the own account. The answer holds recovery codes, with the first key only. */
export async function addKey(name: string, passkey: boolean) {
  const challenge = await unwrap(client.POST("/api/v1/me/mfa/keys/start", { body: { passkey } }));
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(
    challenge.options as unknown as PublicKeyCredentialCreationOptionsJSON,
  );
  const made = await ask(navigator.credentials.create({ publicKey }));
  const body = { name, ...answerOf(made, challenge.state) };
  return unwrap(client.POST("/api/v1/me/mfa/keys", { body }));
}

export function renameKey(id: number, name: string) {
  const params = { path: { id } };
  return unwrap(client.PATCH("/api/v1/me/mfa/keys/{id}", { params, body: { name } }));
}

export function removeKey(id: number) {
  return unwrap(client.DELETE("/api/v1/me/mfa/keys/{id}", { params: { path: { id } } }));
}

export async function logInByPasskey(): Promise<Me> {
  const challenge = await unwrap(client.POST("/api/v1/auth/passkey/start"));
  const body = await signWithKey(challenge);
  return unwrap(client.POST("/api/v1/auth/passkey", { body }));
}

async function ask(asked: Promise<Credential | null>): Promise<PublicKeyCredential> {
  try {
    const given = await asked;
    if (given instanceof PublicKeyCredential) return given;
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
    if (error.name === "InvalidStateError") throw new Error("This key is known already.");
  }
  throw new Error("No key was used; try again.");
}

function answerOf(credential: PublicKeyCredential, state: string): KeyAnswer {
  return { credential: credential.toJSON(), state };
}
