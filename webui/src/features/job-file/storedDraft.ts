/** The job file that is being written, kept for this tab: a reload or a look elsewhere does not lose
 * it. It belongs to the user who wrote it, and goes when this user logs out. */
const KEY = "skep-draft";
/** Written at each logout, for the other tabs of the browser. */
const LOGOUT_KEY = "skep-logged-out-at";

export interface StoredDraft {
  /** The name of its user. */
  user: string;
  /** The entry of the browser's history at which it was written. */
  entry: string;
  text: string;
}

/** The draft of this user in this tab. One of another user is removed. */
export function readDraft(user: string): StoredDraft | null {
  const stored = parse(sessionStorage.getItem(KEY));
  if (stored?.user === user) return stored;
  forgetDraft();
  return null;
}

export function storeDraft(draft: StoredDraft): void {
  sessionStorage.setItem(KEY, JSON.stringify(draft));
}

export function forgetDraft(): void {
  sessionStorage.removeItem(KEY);
}

/** At a logout, which ends the session in all tabs of the browser. */
export function forgetDraftInAllTabs(): void {
  forgetDraft();
  localStorage.setItem(LOGOUT_KEY, String(Date.now()));
}

/** Forgets the draft of this tab when its user logs out in another one. */
export function watchLogout(): void {
  addEventListener("storage", ({ key }) => {
    if (key === LOGOUT_KEY) forgetDraft();
  });
}

function parse(text: string | null): StoredDraft | null {
  if (text === null) return null;
  try {
    return JSON.parse(text) as StoredDraft;
  } catch {
    // An older page kept the bare text, without its user.
    return null;
  }
}
