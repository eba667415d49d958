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

const LONGEST_PAST = 200;

export interface EditorState {
  /** What is saved, as far as this page knows. */
  base: Draft;
  revision: number;
  draft: Draft;
  past: Draft[];
  /** What the latest edit was about: edits of one field are undone together. */
  latest: string | null;
  /** Fields that somebody else changed meanwhile, to something else. */
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

export function begin(assignment: Assignment): EditorState {
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

export function edit(state: EditorState, action: Edit): EditorState {
  switch (action.do) {
    case "claim": {
      const draft = withClaim(state.draft, action.field, action.number);
      return moved(state, draft, keyOf(action.field));
    }
    case "pin":
      return moved(state, withPin(state.draft, action.name, action.pin), null);
    case "revert":
      return moved(state, without(state.draft, action.change), null);
    case "undo": {
      const draft = state.past.at(-1);
      return draft ? { ...state, draft, past: state.past.slice(0, -1), latest: null } : state;
    }
    case "discard":
      return moved(state, state.base, null);
    case "adopt": {
      const fresh = toDraft(action.fresh);
      return {
        ...begin(action.fresh),
        draft: rebase(state.base, state.draft, fresh),
        clashing: clashes(state.base, state.draft, fresh),
      };
    }
  }
}

function moved(state: EditorState, draft: Draft, about: string | null): EditorState {
  const together = about !== null && about === state.latest;
  const past = together ? state.past : [...state.past, state.draft].slice(-LONGEST_PAST);
  return { ...state, draft, past, latest: about };
}

/** The editor of one assignment. What others save is taken up at once while nothing is changed
 * here; else `newer` says that it is there. */
export function useEditor(assignment: Assignment) {
  const [state, dispatch] = useReducer(edit, assignment, begin);
  const changed = changes(state.base, state.draft);
  const newer = assignment.revision > state.revision;
  if (newer && changed.length === 0) dispatch({ do: "adopt", fresh: assignment });
  return { ...state, changes: changed, newer, dispatch };
}

export type Editor = ReturnType<typeof useEditor>;
