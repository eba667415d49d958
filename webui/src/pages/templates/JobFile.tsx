import type { Template } from "@/api/templates";
import { YamlView } from "@/features/yaml-editor/YamlView";

export default function JobFile({ template }: { template: Template }) {
  return <YamlView text={template.text} label={`Job file of ${template.title}`} />;
}
