import { useQuery } from "@tanstack/react-query";
import { useRouterState } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { images } from "@/api/admin";
import { virtualClusters } from "@/api/virtualClusters";
import { job } from "@/api/jobs";
import { me } from "@/api/session";
import { template } from "@/api/templates";
import { EXAMPLES, type ExampleSettings } from "./examples";
import { withJsonLines } from "@/features/job-file/changeJobFile";
import { fromTemplate } from "@/features/job-file/jobForm";
import { forgetDraft, readDraft, storeDraft } from "@/features/job-file/storedDraft";
import { maskSecrets, withNextName } from "./jobFileText";
import type { SubmitSearch } from "./searchParams";

interface Draft {
  /** null while the job or template to be copied is read. */
  text: string | null;
  ground: ExampleSettings;
  error: unknown;
  write: (text: string) => void;
  forget: () => void;
}

/** The job file being written: kept for its user in this tab, so that a look elsewhere does not lose
 * it. A copy of a job or template begins anew, except after a reload and on the way back to it. */
export function useDraft({ from, template: name, parameters }: SubmitSearch): Draft {
  const { data: user } = useQuery(me);
  const ground = useExampleSettings();
  const original = useQuery({ ...job(from ?? ""), enabled: from !== undefined });
  const published = useQuery({ ...template(name ?? ""), enabled: name !== undefined });
  // Of the browser's history: another one is another copy.
  const entry = useRouterState({ select: ({ location }) => location.state.__TSR_key });
  const isCopy = (from ?? name) !== undefined;
  const [written, setWritten] = useState<string | null>(null);
  const username = user?.username;
  const kept = useMemo(() => {
    const draft = username === undefined ? null : readDraft(username);
    return draft && (!isCopy || draft.entry === entry) ? draft.text : null;
  }, [username, isCopy, entry]);
  const copied = original.data ? withNextName(withJsonLines(original.data.spec_text)) : null;
  const filled = published.data
    ? fromTemplate(published.data.text, parameters ?? {}, ground.virtualCluster)
    : null;
  const start = from ? copied : name ? filled : (EXAMPLES[0]?.text(ground) ?? "");
  return {
    text: written ?? kept ?? start,
    ground,
    error: from ? original.error : name ? published.error : null,
    write: (text) => {
      setWritten(text);
      // Values of secrets stay in the page: the storage of the tab lies in the clear on the disk.
      const masked = maskSecrets(text);
      if (masked === null || username === undefined) forgetDraft();
      else storeDraft({ user: username, entry: entry ?? "", text: masked });
    },
    forget: forgetDraft,
  };
}

function useExampleSettings(): ExampleSettings {
  const { data: user } = useQuery(me);
  const { data: known } = useQuery(images);
  const { data: vcs } = useQuery(virtualClusters);
  const virtualCluster = user?.virtual_clusters[0]?.name ?? "default";
  const own = vcs?.find((vc) => vc.name === virtualCluster)?.default_image;
  return { virtualCluster, image: own || (known?.[0]?.name ?? "python:3.12-slim") };
}
