import { useReducer } from "react";
import type { Assignment } from "@/api/types";
import {
  changes,
  clashes,
  rebase,
  toDraft,
  without,
  withClaim,
  withPin,
  type Change,
  type Draft,
  type Field,
  type Pin,
  keyOf,
} from "./draft";

const MAX_UNDO = 200;

export interface EditorState {
  /** What is saved, as far as this page knows. */
  base: Draft;
  revision: number;
  draft: Draft;
  past: Draft[];
  /** What the latest edit was about: edits of one field are undone together. */
  latest: string | null;
  /** Fields that another user changed meanwhile, to another value. */
  clashing: Set<string>;
}

export type Edit =
  | { do: "claim"; field: Field; number: number }
  | { do: "pin"; name: string; pin: Pin | null }
  | { do: "revert"; change: Change }
  | { do: "undo" }
  | { do: "discard" }
  /** Takes up what the server has now; own changes stay. */
  | { do: "adopt"; fresh: Assignment };

export function initialState(assignment: Assignment): EditorState {
  const base = toDraft(assignment);
  return {
    base,
    revision: assignment.revision,
    draft: base,
    past: [],
    latest: null,
    clashing: new Set(),
  };
}

export function editReducer(state: EditorState, action: Edit): EditorState {
  switch (action.do) {
    case "claim": {
      const draft = withClaim(state.draft, action.field, action.number);
      return withDraft(state, draft, keyOf(action.field));
    }
    case "pin":
      return withDraft(state, withPin(state.draft, action.name, action.pin), null);
    case "revert":
      return withDraft(state, without(state.draft, action.change), null);
    case "undo": {
      const draft = state.past.at(-1);
      return draft ? { ...state, draft, past: state.past.slice(0, -1), latest: null } : state;
    }
    case "discard":
      return withDraft(state, state.base, null);
    case "adopt": {
      const fresh = toDraft(action.fresh);
      return {
        ...initialState(action.fresh),
        draft: rebase(state.base, state.draft, fresh),
        clashing: clashes(state.base, state.draft, fresh),
      };
    }
  }
}

function withDraft(state: EditorState, draft: Draft, about: string | null): EditorState {
  const together = about !== null && about === state.latest;
  const past = together ? state.past : [...state.past, state.draft].slice(-MAX_UNDO);
  return { ...state, draft, past, latest: about };
}

/** The editor of one assignment. What others save is taken up at once while nothing is changed
 * here; else `newer` says that it is there. */
export function useAssignmentEditor(assignment: Assignment) {
  const [state, dispatch] = useReducer(editReducer, assignment, initialState);
  const changed = changes(state.base, state.draft);
  const newer = assignment.revision > state.revision;
  if (newer && changed.length === 0) dispatch({ do: "adopt", fresh: assignment });
  return { ...state, changes: changed, newer, dispatch };
}

export type EditorHandle = ReturnType<typeof useAssignmentEditor>;
