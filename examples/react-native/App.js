import { FileSystemChanges, load, openIndex, openSource, snippet } from "pocketquery/react-native";
import { useEffect, useState } from "react";
import { Button, FlatList, View, Text, TextInput } from "react-native";
import { files, folder, shipped } from "./files";

/** The shipped encoder and index, with what the user added and deleted. */
async function openNotes() {
  const encoder = await load(await openSource(files, await shipped("encoder.zip")));
  const changes = new FileSystemChanges(files, `${folder}/notes`);
  return openIndex(await openSource(files, await shipped("index.zip")), { encoder, changes });
}

export default function App() {
  const [index, setIndex] = useState(null);
  const [text, setText] = useState("");
  const [hits, setHits] = useState([]);
  const [problem, setProblem] = useState("");

  /** Do something with the index, and say what went wrong. */
  const run = (work) => work().then(() => setProblem(""), (error) => setProblem(error.message));

  useEffect(() => void run(async () => setIndex(await openNotes())), []);

  const search = async () => {
    const found = text.trim() ? await index.search(text, { k: 20 }) : [];
    setHits(await Promise.all(found.map(async (hit) => ({ ...hit, shown: (await snippet(index, hit, text)).text }))));
  };
  const add = async () => {
    await index.add([{ id: `note ${Date.now()}`, text }]);
    setText("");
  };
  const remove = async (id) => {
    await index.delete([id]);
    await search();
  };

  return (
    <View>
      <TextInput testID="text" value={text} onChangeText={setText} onSubmitEditing={() => run(search)} placeholder="Search, or write a note" />
      <Button title="Search" disabled={!index} onPress={() => run(search)} />
      <Button title="Add as a note" disabled={!index || !text.trim()} onPress={() => run(add)} />
      <Text testID="state">{problem || (index ? `${index.size} documents` : "Opening")}</Text>
      <FlatList
        data={hits}
        keyExtractor={(hit) => hit.id}
        renderItem={({ item }) => (
          <Text testID="hit" onLongPress={() => run(() => remove(item.id))}>
            {item.shown}
          </Text>
        )}
      />
    </View>
  );
}
