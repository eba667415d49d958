import type { Job } from "@/api/types";
import { YamlView } from "@/features/yaml-editor/YamlView";

export default function SpecTab({ job }: { job: Job }) {
  return <YamlView text={job.spec_text} label={`Job file of ${job.name}`} />;
}
