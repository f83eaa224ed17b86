// Conversations in IndexedDB: one record a chat, one a message, one a setting.
const NAME = 'gabbro', VERSION = 1;
let database = null;

const done = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

export async function open() {
  const request = indexedDB.open(NAME, VERSION);
  request.onupgradeneeded = () => {
    const created = request.result;
    created.createObjectStore('chats', { keyPath: 'id' });
    created.createObjectStore('messages', { keyPath: 'id' }).createIndex('chat', 'chat');
    created.createObjectStore('settings');
  };
  database = await done(request);
  // A newer page in another tab may change the format.
  database.onversionchange = () => database.close();
  // Without this permission browsers may delete the conversations when the disk is full.
  if (navigator.storage?.persist) navigator.storage.persist();
}

const store = (name, mode = 'readonly') => database.transaction(name, mode).objectStore(name);

export const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, '0')).join('');

export const chats = () => done(store('chats').getAll());
export const putChat = (chat) => done(store('chats', 'readwrite').put(chat));
export const messagesOf = (chat) => done(store('messages').index('chat').getAll(chat));
export const allMessages = () => done(store('messages').getAll());
export const putMessage = (message) => done(store('messages', 'readwrite').put(message));
export const setting = (name) => done(store('settings').get(name));
export const putSetting = (name, value) => done(store('settings', 'readwrite').put(value, name));

// All of it or nothing.
export function putAll(newChats, newMessages) {
  const transaction = database.transaction(['chats', 'messages'], 'readwrite');
  for (const chat of newChats) transaction.objectStore('chats').put(chat);
  for (const message of newMessages) transaction.objectStore('messages').put(message);
  return finished(transaction);
}

export function removeChat(id) {
  const transaction = database.transaction(['chats', 'messages'], 'readwrite');
  transaction.objectStore('chats').delete(id);
  const request = transaction.objectStore('messages').index('chat').openKeyCursor(IDBKeyRange.only(id));
  request.onsuccess = () => {
    const cursor = request.result;
    if (!cursor) return;
    transaction.objectStore('messages').delete(cursor.primaryKey);
    cursor.continue();
  };
  return finished(transaction);
}

const finished = (transaction) => new Promise((resolve, reject) => {
  transaction.oncomplete = () => resolve();
  transaction.onerror = transaction.onabort = () => reject(transaction.error);
});
