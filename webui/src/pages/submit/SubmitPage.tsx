export function SubmitPage() { return <p>SubmitPage</p>; }
